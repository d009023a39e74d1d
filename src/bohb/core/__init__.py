"""The pure core: the algorithm, without I/O, clocks, threads or global random state."""
