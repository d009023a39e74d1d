"""The search space: a ConfigSpace compiled into arrays, so that encoding and sampling are fast.

Imports numpy, and nothing of the rest of the core. Only modules that spaces are built with import ConfigSpace.
"""

from bohb.core.space.compiled import Array, Space

__all__ = ["Array", "Space"]
