"""A study as facts and tables: pure functions of a History, for everything that shows a study and your own analysis.

Nothing here draws, reads a clock or touches a file. Rows are frozen dataclasses. If there is not enough data yet, a
function returns an empty list or None. Each module is imported by itself, so that a command loads only what it shows.
"""
