"""Hyperband's schedule (Algorithms 1 and 3): brackets, successive halving, the plan. Counts and comparisons only;
no random numbers, no models.
"""
