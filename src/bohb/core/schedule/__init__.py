"""Hyperband's schedule (Algorithms 1 and 3): brackets, successive halving, the plan, and rules that choose brackets.

Only the rules draw random numbers or ask a model; the rest counts and compares.
"""
