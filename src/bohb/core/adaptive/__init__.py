"""`budgets="adaptive"`: how well rungs agree, and which bracket to open next.

Decides from losses alone; nothing of configurations, journals or clocks.
"""
