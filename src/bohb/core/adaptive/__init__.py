"""`budgets="adaptive"`: how well rungs agree, and which bracket to open next.

Decides from losses alone; must not use configurations, journals or clocks.
"""
