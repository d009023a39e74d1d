"""Trials on pools, Dask, Ray and Slurm. Each engine is imported only in its own module."""
