"""Schedules: what the clock starts, and when."""
