"""Document ingestion: steps that read, cut, embed and search documents."""
