"""The command `bohb`. Nothing else imports this package; it may import everything."""

from bohb.cli.app import app, main

__all__ = ["app", "main"]
