"""Experiments and comparisons; never imported by the package. See README.md."""
