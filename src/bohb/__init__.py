"""BOHB, as published."""
