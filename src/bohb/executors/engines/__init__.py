"""Trials on engines that other projects provide: pools of concurrent.futures, Dask, Ray, Slurm.

Each engine is imported only in its own module. Inside its tasks, trials run in the processes of `executors.local`.
"""
