"""The HTTP server: assembles the routes of all packages into one application."""

from holdfast.api.app import close_app as close_app
from holdfast.api.app import make_app as make_app

__all__ = ["make_app"]
