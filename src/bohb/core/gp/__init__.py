"""The Gaussian process of `bohb.BEST`: a model over configurations and rungs, and its proposals.

Knows vectors, losses and settings; nothing of brackets, journals or clocks.
"""
