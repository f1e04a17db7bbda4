"""What lies outside: documents to fetch, and models to ask."""
