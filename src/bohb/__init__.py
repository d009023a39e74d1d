"""BOHB: robust and efficient hyperparameter optimisation at scale, as published (Falkner, Klein, Hutter; ICML 2018).

Names are imported on first use, so that a command such as `bohb status` starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bohb._version import __version__

if TYPE_CHECKING:
    from bohb.analysis.extrapolation import Extrapolation
    from bohb.core.confirm import Confirmation
    from bohb.core.history import History
    from bohb.core.limits import Limits
    from bohb.core.results import Result
    from bohb.core.samplers.chain import Sampler
    from bohb.core.samplers.proposal import Situation
    from bohb.core.schedule.brackets import Plan
    from bohb.core.settings import Settings
    from bohb.core.space import Space
    from bohb.core.space.shorthand import SpaceDict
    from bohb.core.trial import Origin, Outcome, Status, Trial
    from bohb.errors import DeviceMemory, Retry
    from bohb.optimizer.ask_tell import BOHB
    from bohb.running.extrapolate import extrapolate
    from bohb.running.minimize import minimize
    from bohb.running.replay import Replay, replay
    from bohb.running.runner import run
    from bohb.running.study import RunningStudy, Study, load, studies

__all__ = [
    "BOHB",
    "Confirmation",
    "DeviceMemory",
    "Extrapolation",
    "History",
    "Limits",
    "Origin",
    "Outcome",
    "Plan",
    "Replay",
    "Result",
    "Retry",
    "RunningStudy",
    "Sampler",
    "Settings",
    "Situation",
    "Space",
    "SpaceDict",
    "Status",
    "Study",
    "Trial",
    "__version__",
    "extrapolate",
    "load",
    "minimize",
    "replay",
    "run",
    "studies",
]

_HOMES = {
    "analysis.extrapolation": ("Extrapolation",),
    "core.confirm": ("Confirmation",),
    "core.history": ("History",),
    "core.limits": ("Limits",),
    "core.results": ("Result",),
    "core.schedule.brackets": ("Plan",),
    "core.settings": ("Settings",),
    "core.samplers.chain": ("Sampler",),
    "core.samplers.proposal": ("Situation",),
    "core.space": ("Space",),
    "core.space.shorthand": ("SpaceDict",),
    "core.trial": ("Origin", "Outcome", "Status", "Trial"),
    "errors": ("DeviceMemory", "Retry"),
    "optimizer.ask_tell": ("BOHB",),
    "running.replay": ("Replay", "replay"),
    "running.extrapolate": ("extrapolate",),
    "running.minimize": ("minimize",),
    "running.runner": ("run",),
    "running.study": ("RunningStudy", "Study", "load", "studies"),
}
_HOME = {name: f"bohb.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name or a submodule; called once for each."""
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name.startswith("_"):
        raise AttributeError(f"module 'bohb' has no attribute {name!r}")
    else:
        try:
            value = importlib.import_module(f"bohb.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"bohb.{name}":
                raise
            raise AttributeError(f"module 'bohb' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "errors"])
