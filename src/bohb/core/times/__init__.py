"""How long trials take, when a study will end, and what still ends before a deadline.

It uses schedules and the history. It must not look at losses, models, journals or clocks: the time is a value.
"""
