"""Settings: the paper's numbers by name, validated once."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from bohb.core.trial import Explains
from bohb.errors import InvalidArgument

TPE = "tpe"  # the name of the built-in sampler (Algorithm 2)
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
        "adaptive" chooses two of three brackets by how well rungs agree.
    """

    random_fraction: float = 1 / 3
    good_fraction: float = 0.15
    num_samples: int = 64
    min_points: int | None = None
    bandwidth_factor: float = 3.0
    min_bandwidth: float = 1e-3
    bracket_sizes: Literal["paper", "hpbandster"] = "paper"
    overlap: bool = True
    boundary: bool = True
    widen_categorical: bool = False
    start_order: Literal["smallest_budget", "oldest_bracket"] = "smallest_budget"
    refill: bool = False
    duplicates: bool = False
    avoid_failures: bool = True
    sampler: str = TPE
    model: Literal["density", "gp"] = "density"
    schedule: Literal["hyperband", "informed", "adaptive"] = "hyperband"

    def __post_init__(self) -> None:
        """Check every value; raise InvalidArgument with the rule it breaks."""
        _in_range("random_fraction", self.random_fraction, 0, 1)
        _in_range("good_fraction", self.good_fraction, 0, 1, open_ends=True)
        _in_range("bandwidth_factor", self.bandwidth_factor, 0, math.inf, open_ends=True)
        _in_range("min_bandwidth", self.min_bandwidth, 0, 1, open_ends=True)
        _whole("num_samples", self.num_samples, 1)
        if self.min_points is not None:
            _whole("min_points", self.min_points, 1)
        _one_of("bracket_sizes", self.bracket_sizes, "paper", "hpbandster")
        _one_of("start_order", self.start_order, "smallest_budget", "oldest_bracket")
        _one_of("model", self.model, *MODELS)
        _one_of("schedule", self.schedule, "hyperband", "informed", "adaptive")
        for name in ("overlap", "boundary", "widen_categorical", "refill", "duplicates", "avoid_failures"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name}={getattr(self, name)!r} must be True or False")
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


def _in_range(name: str, value: object, low: float, high: float, open_ends: bool = False) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InvalidArgument(f"{name}={value!r} must be a number, not {type(value).__name__}")
    number = float(value)
    inside = low < number < high if open_ends else low <= number <= high
    if not inside:
        ends = "strictly between" if open_ends else "between"
        raise InvalidArgument(f"{name}={value!r} must lie {ends} {low} and {high}")


def _whole(name: str, value: object, low: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < low:
        raise InvalidArgument(f"{name}={value!r} must be a whole number of at least {low}")


def _one_of(name: str, value: object, *allowed: str) -> None:
    if value not in allowed:
        raise InvalidArgument(f"{name}={value!r} must be one of {list(allowed)}")


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
