"""Where trials run: in this process, in worker processes of this machine, or on engines that others built."""
