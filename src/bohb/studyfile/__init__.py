"""The study file: a study as TOML, with its space, its clauses, shell objectives and the check before a run.

May import the core and the executors; it never opens a journal.
"""
