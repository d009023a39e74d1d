"""Trials in supervised processes of this machine: a guard, one warm worker per slot, limits on time and memory.

A worker imports these modules when it starts, so they must import little besides the core.
"""
