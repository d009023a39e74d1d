"""The soak: several runners share a study on PostgreSQL for hours, with a random fault every few seconds.

`study` is the study and its objective, `stage` the server, the proxies and the runners, `kinds` the faults, and
`checks` says what must hold in the end. `python -m tests.faults.soak --help` runs it.
"""
