"""A database, and nothing about tasks: the embedded server, connections, migrations."""
