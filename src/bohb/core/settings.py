"""Settings and budgets: the numbers of a study by name, validated once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypedDict, get_args

from bohb.arguments import COUNT, FLAG, LIST, NUMBER, argument, between, check, one_of
from bohb.core.schedule.brackets import check_budgets, geometric_budgets, hyperband
from bohb.core.trial import Explains
from bohb.errors import InvalidArgument

TPE = "tpe"  # the name of the built-in sampler (Algorithm 2)
BracketSizes = Literal["paper", "hpbandster"]
StartOrder = Literal["smallest_budget", "oldest_bracket"]
ModelName = Literal["density", "gp"]
ScheduleName = Literal["hyperband", "informed"]
MODELS: Mapping[str, Explains] = {"density": "density", "gp": "process"}  # of the built-in sampler


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a study; the defaults are those of the preset "paper".

    The paper's numbers (Algorithm 2, Eq. 3, Appendix D):

    random_fraction: ρ, the share of configurations drawn from the prior; 1 is Hyperband.
    good_fraction: q, the share of observations that count as good.
    num_samples: N_s, candidates drawn from l′ per proposal.
    min_points: N_min, observations that each density needs; None means d + 1.
    bandwidth_factor: b_w, how much wider l′ is than l.
    min_bandwidth: the smallest bandwidth of a kernel.

    Where HpBandSter differs from the paper (preset "hpbandster"):

    bracket_sizes: "paper" for n = ⌈(s_max+1)/(s+1)·η^s⌉, "hpbandster" for ⌊(s_max+1)/(s+1)⌋·η^s.
    overlap: whether good and bad may overlap while observations are few (Eq. 3). If not, the first model needs 2·N_min
        observations, and the bad set is the 1 − q of the observations after the good ones.
    boundary: whether kernels are normalised on [0, 1].
    start_order: "smallest_budget" (§4.2) or "oldest_bracket".
    refill: whether a new configuration takes the place of a failed one in the next rung.

    Where the paper's text differs from its experiments; the default is what its figures used:

    widen_categorical: whether b_w applies to categorical kernels, too ("all bandwidths", §4.1).

    What neither of them has:

    duplicates: whether a configuration of a finite space may be evaluated twice on one budget.
    avoid_failures: whether random configurations are drawn less often where evaluations fail.
    sampler: "tpe" (Algorithm 2), or the name of the function given as `sampler`.

    Beyond the paper (preset "best"); the defaults are the published BOHB:

    model: the model of the built-in sampler: "density" (Algorithm 2), or "gp", a Gaussian process over configurations
        and rungs; the density is used where the process makes no proposal.
    schedule: "hyperband" is Algorithm 1. "informed" is Hyperband, but a bracket starts on the largest budget when the
        Gaussian process expects no gain from smaller ones, and a bracket is repeated while none with the same rungs has
        finished; without a process, with several objectives or if all configurations are random it is "hyperband".
    """

    random_fraction: float = argument(1 / 3, between(0, 1, ends=True))
    good_fraction: float = argument(0.15, between(0, 1, ends=False))
    num_samples: int = argument(64, COUNT)
    min_points: int | None = argument(None, COUNT)
    bandwidth_factor: float = argument(3.0, between(0, math.inf, ends=False))
    min_bandwidth: float = argument(1e-3, between(0, 1, ends=False))
    bracket_sizes: BracketSizes = argument("paper", one_of(get_args(BracketSizes)))
    overlap: bool = argument(True, FLAG)
    boundary: bool = argument(True, FLAG)
    widen_categorical: bool = argument(False, FLAG)
    start_order: StartOrder = argument("smallest_budget", one_of(get_args(StartOrder)))
    refill: bool = argument(False, FLAG)
    duplicates: bool = argument(False, FLAG)
    avoid_failures: bool = argument(True, FLAG)
    sampler: str = TPE
    model: ModelName = argument("density", one_of(get_args(ModelName)))
    schedule: ScheduleName = argument("hyperband", one_of(get_args(ScheduleName)))

    def __post_init__(self) -> None:
        """Check every value; raise InvalidArgument with the rule it breaks."""
        check(self)
        if not isinstance(self.sampler, str) or not self.sampler:
            raise InvalidArgument(f"sampler={self.sampler!r} must be the name of a sampler")

    @property
    def explains(self) -> Explains:
        """What explains the proposals of the study's sampler."""
        return MODELS[self.model] if self.sampler == TPE else "function"

    def to_json(self) -> dict[str, Any]:
        """Return all settings by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Settings:
        """Return the settings that `to_json` wrote; one that is left out has its default."""
        return cls().changed(stored)

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """Return the settings with other values by name."""
        known = {f.name for f in fields(self)}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise InvalidArgument(f"unknown settings {unknown}; this version knows {sorted(known)}")
        return replace(self, **changes)


class SettingChanges(TypedDict, total=False):
    """Single settings by name, as arguments of a function; see `Settings`."""

    random_fraction: float
    good_fraction: float
    num_samples: int
    min_points: int | None
    bandwidth_factor: float
    min_bandwidth: float
    bracket_sizes: BracketSizes
    overlap: bool
    boundary: bool
    widen_categorical: bool
    start_order: StartOrder
    refill: bool
    duplicates: bool
    avoid_failures: bool
    model: ModelName
    schedule: ScheduleName


Preset = Literal["best", "paper", "hpbandster"]
PRESETS: Mapping[str, Settings] = {
    "best": Settings(model="gp", schedule="informed"),  # chosen by the study in docs/results/better.md
    "paper": Settings(),
    "hpbandster": Settings(
        bracket_sizes="hpbandster",
        overlap=False,
        boundary=False,
        start_order="oldest_bracket",
        refill=True,
        duplicates=True,
        avoid_failures=False,
    ),
}


def preset_settings(preset: Preset) -> Settings:
    """Return the settings of a preset. Raises InvalidArgument if there is none of that name."""
    if isinstance(preset, str) and preset in PRESETS:
        return PRESETS[preset]
    names = ", ".join(repr(name) for name in PRESETS)
    raise InvalidArgument(f"preset={preset!r} must be one of {names}; change single settings by name")


def nearest_preset(settings: Settings) -> tuple[Preset, dict[str, Any]]:
    """Return the preset that needs the fewest changes to become these settings, and the changes by name."""
    wanted = settings.to_json()
    changes = {
        name: {key: value for key, value in wanted.items() if getattr(preset, key) != value}
        for name, preset in PRESETS.items()
    }
    name: Any = min(changes, key=lambda name: len(changes[name]))
    return name, changes[name]


@dataclass(frozen=True, slots=True)
class Budgets:
    """What an evaluation may spend.

    min_budget: the smallest budget; no evaluation gets less.
    max_budget: the largest budget; the budgets between are a factor eta apart.
    eta: a rung keeps the best 1/eta of its configurations, by default a third.
    budgets: a list of increasing budgets instead of min_budget and max_budget.
    integer_budgets: whether budgets are rounded to whole numbers.
    """

    min_budget: float | None = argument(None, NUMBER, "budget.min")
    max_budget: float | None = argument(None, NUMBER, "budget.max")
    eta: float = argument(3, NUMBER, "budget.eta")
    budgets: Sequence[float] | None = argument(None, LIST, "budget.values")
    integer_budgets: bool = argument(False, FLAG, "budget.integer")

    def values(self) -> tuple[float, ...]:
        """Return the budgets, smallest first. Raises InvalidArgument if they break a rule."""
        low, high, budgets = self.min_budget, self.max_budget, self.budgets
        if isinstance(budgets, str):
            raise InvalidArgument(f"budgets={budgets!r} must be a list of numbers")
        if budgets is not None:
            if low is not None or high is not None:
                raise InvalidArgument("give either budgets or min_budget and max_budget, not both")
            return self._checked(check_budgets(budgets))
        if low is None or high is None:
            raise InvalidArgument(
                f"min_budget={low!r} and max_budget={high!r} must both be given (or the list budgets=[…])"
            )
        return self._checked(geometric_budgets(low, high, self.eta, self.integer_budgets))

    def _checked(self, budgets: tuple[float, ...]) -> tuple[float, ...]:
        hyperband(budgets, self.eta)  # checks eta and the size of the brackets
        return budgets
