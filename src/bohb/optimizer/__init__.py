"""Ask and tell over a journal: turns events into decisions and stores every decision.

May import the core and the journal; never executors or anything that runs trials.
"""
