"""The search space: a ConfigSpace compiled into arrays, so that encoding and sampling are fast.

Imports numpy and, in `configspace.py` alone, ConfigSpace; nothing of the rest of the core.
"""

from bohb.core.space.compiled import Array, Space

__all__ = ["Array", "Space"]
