"""Attention: what else waits for a person, for the inbox."""
