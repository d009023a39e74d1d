"""Where trials run: in this process, in supervised processes of this machine, or on pools, Dask, Ray and Slurm."""
