"""Datasets: files and tables under a name, generation by generation."""
