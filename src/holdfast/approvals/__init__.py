"""Approvals: what tasks ask people, and their answers."""
