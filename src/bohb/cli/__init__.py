"""The command `bohb`."""

from bohb.cli.app import app, main

__all__ = ["app", "main"]
