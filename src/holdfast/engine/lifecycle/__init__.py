"""Lifecycles: the model, its validation, its pictures. No database."""
