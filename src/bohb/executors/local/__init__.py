"""Trials in supervised processes of this machine. Workers import this when they start, so it imports little."""
