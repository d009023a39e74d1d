"""Algorithm 2: the kernel density model of the published BOHB (Appendix D) and its proposals.

Knows vectors, losses and settings; nothing of brackets, journals or clocks.
"""
