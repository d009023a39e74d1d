"""The Gaussian process of `bohb.BEST`: a model over configurations and rungs, and its proposals.

It uses vectors, losses and settings. It must not import brackets, journals or clocks.
"""
