"""BOHB: robust and efficient hyperparameter optimisation at scale, as published (Falkner, Klein, Hutter; ICML 2018)."""

from bohb._version import __version__
from bohb.core.history import History, Result
from bohb.core.plan import Plan
from bohb.core.settings import HPBANDSTER, PAPER, Settings
from bohb.core.space import Space
from bohb.core.trial import Origin, Outcome, Status, Trial
from bohb.optimizer import BOHB
from bohb.replaying import Replay, replay
from bohb.runner import minimize, run
from bohb.stopping import Limits
from bohb.study import Study

__all__ = [
    "BOHB",
    "HPBANDSTER",
    "PAPER",
    "History",
    "Limits",
    "Origin",
    "Outcome",
    "Plan",
    "Replay",
    "Result",
    "Settings",
    "Space",
    "Status",
    "Study",
    "Trial",
    "__version__",
    "minimize",
    "replay",
    "run",
]
