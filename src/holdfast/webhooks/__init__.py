"""Webhooks: endpoints that hear how tasks end."""
