"""Running a study: `minimize`, the runner's loop, limits, checkpoints, progress, replay.

May import the optimizer and the executors; never the command line, plots or the dashboard.
"""
