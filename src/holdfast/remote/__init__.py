"""What lies outside: documents to fetch, models to ask, and servers of Holdfast to speak to."""
