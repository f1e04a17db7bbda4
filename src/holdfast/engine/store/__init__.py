"""The store: one method per SQL function, and what crosses between Python and Postgres."""
