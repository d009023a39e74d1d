"""The search space: a ConfigSpace compiled into arrays, so that encoding and sampling are fast.

Imports numpy, and nothing of the rest of the core; only `configspace`, `shorthand` and `describe` import ConfigSpace.
"""

from bohb.core.space.compiled import Array, Space

__all__ = ["Array", "Space"]
