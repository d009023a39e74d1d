"""Where configurations come from: Algorithm 2's densities, the Gaussian process, a user's function, or the prior.

Samplers use vectors, losses and settings. They must not import brackets, journals or clocks.
"""
