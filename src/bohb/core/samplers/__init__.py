"""Where configurations come from: the density, the Gaussian process, a user's function, or the prior."""
