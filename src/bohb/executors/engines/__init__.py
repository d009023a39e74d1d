"""Trials on engines that others built: pools of concurrent.futures, Dask, Ray, Slurm.

Each engine is imported in its own module; inside its tasks, trials run in the processes of `executors.local`.
"""
