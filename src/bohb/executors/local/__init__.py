"""Trials in supervised processes of this machine: a guard, one warm worker per slot, limits on time and memory.

Imports only the core; workers must start quickly.
"""
