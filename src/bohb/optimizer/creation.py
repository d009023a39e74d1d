"""Creates the first events of a study and those that the user asks for, and checks whether a study can be continued."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bohb.core.events import BudgetsRaised, ConfigGiven, Event, NoteAdded, StudyCreated
from bohb.core.goals import goals_of
from bohb.core.history import History
from bohb.core.samplers.chain import Sampler, sampler_name
from bohb.core.schedule.rules import grown, promoting_bracket
from bohb.core.settings import TPE, Preset, SettingChanges, Settings, nearest_preset, preset_settings
from bohb.core.space import Space
from bohb.core.trial import Origin, jsonable
from bohb.errors import InvalidArgument, StudyMismatch, UnknownTrial

LONGEST_TEXT = 10_000  # of a note, in characters
LONGEST_TAG = 50
MOST_TAGS = 100


class StudyOptions(SettingChanges, total=False):
    """Arguments of `BOHB` that its signature does not list: of `Budgets` and `Settings`."""

    eta: float
    integer_budgets: bool


def study_seed(seed: int | None) -> int:
    """Return the given seed, or a random one."""
    if seed is None:
        return secrets.randbits(32)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InvalidArgument(f"seed={seed!r} must be a whole number of at least 0, or None for a random one")
    return int(seed)


def study_settings(preset: Preset, options: Mapping[str, Any], sampler: Sampler | None) -> Settings:
    """Return a preset with the changes among the options and the sampler's name."""
    changes = {name: value for name, value in options.items() if name in SettingChanges.__optional_keys__}
    changed = preset_settings(preset).changed(changes)
    if sampler is None:
        return changed
    if not callable(sampler):
        raise InvalidArgument(f"sampler={sampler!r} must be a function propose(rng, situation)")
    name = sampler_name(sampler)
    if name == TPE:
        raise InvalidArgument(f"sampler={sampler!r}: the name {TPE!r} is that of the paper's own; rename the function")
    return replace(changed, sampler=name)


def given_events(
    space: Space, configs: Iterable[Mapping[str, Any]], history: History, budget: float | None = None
) -> list[Event]:
    """Return the user's configurations that the study was not given yet, checked against the space.

    budget: where to evaluate them; None for the next places of any bracket.
    """
    if isinstance(configs, Mapping):
        raise InvalidArgument("initial_configs must be a list of configurations: write initial_configs=[{…}]")
    if budget is not None:
        budget = _one_of(history.budgets, budget)
    started = [trial for trial in history.trials.values() if trial.origin is Origin.GIVEN]
    directly = {trial.number: history.schedule.rule(trial.bracket) == "given" for trial in started}
    given = [t.config for t in started if (t.budget if directly[t.number] else None) == budget]
    known = {space.encode(config).tobytes() for config in (*given, *map(space.restore, history.given.waiting(budget)))}
    checked: list[Event] = []
    for config in configs:
        if space.encode(config).tobytes() not in known:
            checked.append(ConfigGiven(history.given.total + len(checked), dict(config), budget))
    return checked


def _one_of(budgets: tuple[float, ...], given: float) -> float:
    """Return the budget of the study that is meant."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= 2 * budgets[-1]:
        for budget in budgets:
            if math.isclose(budget, given, rel_tol=1e-9):
                return budget
    raise InvalidArgument(f"budget={given!r:.80} must be one of the study's: {', '.join(f'{b:g}' for b in budgets)}")


def continue_events(history: History, wanted: StudyCreated, seed_given: bool) -> list[Event]:
    """Return the events to store before a study is continued as `wanted`: none, or those of a larger max_budget.

    Raises StudyMismatch, which lists all differences, if anything else differs.
    """
    stored = history.study
    differences = _space_differences(stored.space, wanted.space)
    budgets = _continued_budgets(history, wanted)
    if budgets is None:
        differences.append(("budgets", f"{list(history.budgets)}", f"{list(wanted.budgets)}"))
    if float(stored.eta) != float(wanted.eta):
        differences.append(("eta", f"{stored.eta}", f"{wanted.eta}"))
    if seed_given and stored.seed != wanted.seed:
        differences.append(("seed", f"{stored.seed}", f"{wanted.seed}"))
    then, now = history.goals.to_json(), goals_of(wanted.objectives, wanted.constraints).to_json()
    for name in ("objectives", "constraints"):
        if then.get(name) != now.get(name):
            differences.append((name, f"{then.get(name) or 'none'}", f"{now.get(name) or 'none'}"))
    differences += _setting_differences(Settings.from_json(stored.settings), Settings.from_json(wanted.settings))
    if differences:
        lines = [f"  {what}: stored {stored}, given {given}" for what, stored, given in differences]
        (what, value, _), *others = differences
        values = f"{what}={value}" if what == "preset" and not others else "the stored values"
        raise StudyMismatch(
            "the stored study cannot be continued with other arguments:\n"
            + "\n".join(lines)
            + f"\ngive {values} to continue it, or another study name or journal for a new study "
            "(warm_start gives it the old one's results)",
            differences,
        )
    # A bracket whose rungs were chosen keeps them.
    first = max([len(history.brackets), *(index + 1 for index in history.schedule.planned)])
    if budgets is None or budgets == history.budgets:
        return []
    promoting = promoting_bracket(history, budgets[len(history.budgets) :])
    return [BudgetsRaised(budgets, first), *([] if promoting is None else [promoting])]


def _setting_differences(stored: Settings, given: Settings) -> list[tuple[str, str, str]]:
    """Return the preset and the single settings that differ, as the user writes them."""
    (then, before), (now, after) = nearest_preset(stored), nearest_preset(given)
    found = []
    if then != now:
        found.append(("preset", f"{then!r}", f"{now!r}"))
    for name in sorted(before.keys() | after.keys()):
        values = getattr(stored, name), getattr(given, name)
        if values[0] != values[1]:
            found.append((name, f"{values[0]!r}", f"{values[1]!r}"))
    return found


def _continued_budgets(history: History, wanted: StudyCreated) -> tuple[float, ...] | None:
    """Return the budgets with which the study goes on: the stored ones, or larger ones in addition to them.

    None if the wanted ones differ in another way. They may be steps of eta below the new largest budget, which need not
    meet the stored ones; the smallest of both must then be less than a factor eta apart.
    """
    stored, budgets = history.budgets, wanted.budgets
    if len(budgets) >= len(stored) and np.allclose(budgets[: len(stored)], stored, rtol=1e-9):
        return (*stored, *budgets[len(stored) :])
    near = 1 / wanted.eta < budgets[0] / stored[0] < wanted.eta and _is_geometric(budgets, wanted.eta)
    if not near or not _is_geometric(history.study.budgets, wanted.eta) or budgets[-1] < stored[-1] * (1 - 1e-9):
        return None
    if np.isclose(budgets[-1], stored[-1], rtol=1e-9):
        return stored if stored != history.study.budgets else None  # the study has grown to this before
    return grown(stored, budgets[-1], wanted.eta)


def _is_geometric(budgets: tuple[float, ...], eta: float) -> bool:
    """Whether budgets are steps of eta apart, or nearly so if they are whole numbers."""
    steps = np.divide(budgets[1:], budgets[:-1])
    return bool(np.allclose(steps, eta, rtol=0.5 if all(isinstance(b, int) for b in budgets) else 1e-6))


def _space_differences(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """List the hyperparameters, conditions and forbidden clauses in which two serialised spaces differ."""
    before = {item["name"]: item for item in _plain(stored["hyperparameters"])}
    after = {item["name"]: item for item in _plain(given["hyperparameters"])}
    found = [(name, "in the space", "not in the space") for name in before if name not in after]
    found += [(name, "not in the space", "in the space") for name in after if name not in before]
    for name in before.keys() & after.keys():
        changed = [key for key in before[name] if before[name].get(key) != after[name].get(key)]
        found += [(f"{name}.{key}", f"{before[name][key]!r}", f"{after[name].get(key)!r}") for key in changed]
    for part in ("conditions", "forbiddens"):
        if _plain(stored[part]) != _plain(given[part]):
            found.append((part, f"{stored[part]!r}", f"{given[part]!r}"))
    return sorted(found)


def _plain(value: Any) -> Any:
    """Return a value as JSON would restore it."""
    return json.loads(json.dumps(jsonable(value)))


def new_note(history: History, text: str, trial: int | None, tags: Iterable[str], time: float) -> NoteAdded:
    """Return the event that adds a note. Raises InvalidArgument or UnknownTrial for one that says nothing or too much.

    trial: the number of a trial; None for the study itself.
    """
    if isinstance(tags, str):
        raise InvalidArgument(f"tags={tags!r:.80} must be a list of texts: write tags=[{tags!r:.80}]")
    found = tuple(dict.fromkeys(tags))
    for tag in found:
        if not isinstance(tag, str) or not 1 <= len(tag) <= LONGEST_TAG or not tag.isprintable() or "," in tag:
            raise InvalidArgument(
                f"the tag {tag!r:.80} must be 1 to {LONGEST_TAG} printable characters without a comma"
            )
    if len(found) > MOST_TAGS:
        raise InvalidArgument(f"the note has {len(found)} tags; a note may have at most {MOST_TAGS} tags")
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise InvalidArgument(f"the note {text!r:.80} must be text of at most {LONGEST_TEXT:,} characters")
    if not text.strip() and not found:
        raise InvalidArgument("a note needs a text or a tag; both are empty")
    if trial is not None and trial not in history.trials:
        raise UnknownTrial(f"trial {trial!r} does not exist; this study has started {len(history.trials)} trials")
    return NoteAdded(len(history.notes), text, found, trial, time)
