"""Algorithm 2: the kernel density model of the published BOHB (Appendix D) and its proposals.

It uses vectors, losses and settings. It must not import brackets, journals or clocks.
"""
