"""The Gaussian process of the preset "best": a model over configurations and rungs, and its proposals.

It uses vectors, losses and settings. It must not import brackets, journals or clocks.
"""
