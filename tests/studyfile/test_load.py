"""The study file: what it can say, and how it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bohb import History, Space
from bohb.core.settings import PRESETS, Settings
from bohb.errors import InvalidSpace
from bohb.journal import SqlJournal
from bohb.studyfile.clauses import parse
from bohb.studyfile.keys import StudyFileError
from bohb.studyfile.load import load
from bohb.studyfile.space import build_space
from bohb.units import memory, seconds
from tests.cli.running import STUDY, call, complaint, written


def used(file: Path) -> None:
    loaded = load(file)
    loaded.objective(loaded.space().names)


CHAIN = "[space]\nh0 = ['a', 'b']\n" + "".join(
    f"h{n} = {{choice = ['a', 'b'], if = \"h{n - 1} == 'a'\"}}\n" for n in range(1, 30)
)


def refused(tmp_path: Path, text: str) -> str:
    file = written(tmp_path, text)
    with pytest.raises(StudyFileError) as error:
        used(file)
    assert str(error.value).startswith(f"{file}: ")
    return str(error.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 1", "sed = 1"), "unknown key 'sed' = 1; did you mean 'seed'?"),
        (("seed = 1", "qqqq = 1"), "unknown key 'qqqq' = 1; known are study, journal"),
        (("seed = 1", 'seed = "one"'), 'seed = "one" must be a whole number'),
        (("seed = 1", "seed = true"), "seed = true must be a whole number"),
        (("seed = 1", 'workers = "4"'), 'workers = "4" must be a whole number'),
        (("seed = 1", "limits = {max_trails = 3}"), "unknown key 'limits.max_trails' = 3; did you mean 'max_trials'?"),
        (
            ("seed = 1", 'limits = {max_seconds = "8 hours"}'),
            'limits.max_seconds = "8 hours" must be a number or a string',
        ),
        (("seed = 1", 'trial = {memory = "4 gigs"}'), 'trial.memory = "4 gigs" must be a number or a string'),
        (("min = 1", 'min = "1"'), 'budget.min = "1" must be a number'),
        (("min = 1", "minimum = 1"), "unknown key 'budget.minimum' = 1; did you mean 'min'?"),
        (("seed = 1", 'objective = "m:f"'), "only one of the keys 'objective' and 'command' can be given"),
        (('command = "echo {x}"', ""), "one of the keys 'objective' and 'command' must be given, unless"),
        (("[space]\nx = {float = [0, 1]}", ""), "the key 'space' is missing"),
        (("x = {float", "x = {float = [0, 1]}\n{"), "not a TOML file"),
        (("{float = [0, 1]}", "{int = [0, 9223372036854775807]}"), "space.x = {int = [0, 9223372036854775807]}: "),
        (("{float = [0, 1]}", f'{{float = [0, 1], if = "{"(" * 5000}"}}'), "space.x.if = "),
        (("[space]\n", CHAIN), "space.h15 depends on a chain of more than 14 conditions"),
        (("seed = 1", f"seed = {'[' * 5000}{']' * 5000}"), "its arrays or tables are nested too deeply"),
        (("seed = 1", f"seed = {'{a=' * 5000}1{'}' * 5000}"), "its arrays or tables are nested too deeply"),
        (("[0, 1]", "[1, 0]"), "space.x = {float = [1, 0]}: lower = 1 must be less than upper = 0"),
        (("{float = [0, 1]}", "[0.1, 1]"), "write {float = [0.1, 1]} for a range, or {choice = [0.1, 1]}"),
        (("{float = [0, 1]}", '[1, 8, "log"]'), "write {int = [1, 8], log = true} for a range"),
        (("{float = [0, 1]}", "{float = [0, 1], log = true}"), "lower = 0 must be positive on the log scale"),
        (("{float = [0, 1]}", '{float = [0, 1], if = "y > 1"}'), "'y' is not a hyperparameter of this space"),
        (("echo {x}", "echo {y}"), "command: {y} is unknown; use x, budget"),
        (("seed = 1", "forbidden = ['x >']"), "it ends where a value should follow"),
        (
            ('command = "echo {x}"', 'objective = "nowhere"'),
            "objective = \"nowhere\" must be of the form 'module:name'",
        ),
        (('command = "echo {x}"', 'objective = "no_such_mod:f"'), "cannot be imported: ModuleNotFoundError"),
        (('command = "echo {x}"', 'objective = "math:no"'), "cannot be found: 'math' has no 'no'"),
        (('command = "echo {x}"', 'objective = "math:pi"'), "must be callable"),
        (("seed = 1", "settings = {num_sample = 2}"), "'settings.num_sample' = 2; did you mean 'num_samples'?"),
        (("seed = 1", 'preset = "mine"'), 'preset = "mine" must be one of best, paper, hpbandster'),
        (("seed = 1", 'settings = {preset = "best"}'), 'settings.preset = "best" belongs at the top of the file'),
        (("seed = 1", 'settings = "best"'), 'settings = "best" must be a table of single settings; a preset'),
    ],
)
def test_what_is_wrong_is_named_with_file_key_value_and_rule(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in STUDY
    text = STUDY.replace(*change)
    assert message in refused(tmp_path, text)


def test_the_rules_of_the_rest_of_the_package_are_said_with_the_file(tmp_path: Path) -> None:
    for change, message in (
        (("max = 9", "max = 0.5"), "min_budget=1 must not exceed max_budget=0.5"),
        (
            ("seed = 1", "settings = {random_fraction = 2}"),
            "settings.random_fraction = 2 must be a number between 0 and 1",
        ),
        (("seed = 1", "limits = {max_trials = 0}"), "limits.max_trials = 0 must be a whole number of at least"),
        (("seed = 1", "initial_configs = [{x = 3}]"), "3"),
    ):
        file = written(tmp_path, STUDY.replace(*change))
        line = complaint("run", file, "--quiet", "--workers", "0")
        assert line.startswith(f"bohb: {file}: ")
        assert message in line


def test_durations_and_sizes_have_units() -> None:
    assert [seconds(v) for v in (90, "90", "90s", "1.5m", "2min", "8h", "2 d")] == [90, 90, 90, 90, 120, 28800, 172800]
    assert [memory(v) for v in (10, "1k", "512MB", "4GiB", "2 GB")] == [10, 1000, 512 * 10**6, 4 * 2**30, 2 * 10**9]
    for bad in ("", "h", "-3h", "3 weeks", None, True, [1]):
        with pytest.raises(ValueError, match="must be a number"):
            seconds(bad)


def test_everything_a_file_says_reaches_the_study(tmp_path: Path) -> None:
    file = load(
        written(
            tmp_path,
            """
            study = "all"
            journal = "here.db"
            directory = "files"
            seed = 7
            preset = "hpbandster"
            workers = 0
            command = ["echo", "{x}"]
            checkpoint_quota = "1GB"
            start_method = "spawn"
            [budget]
            values = [1, 5, 25]
            eta = 4
            unit = "epochs"
            [space]
            x = {float = [0, 1]}
            [limits]
            max_seconds = "2h"
            target_loss = 0.5
            [trial]
            seconds = "1m"
            attempts = 5
            [settings]
            random_fraction = 0.5
            """,
        )
    )
    found = dict(file.arguments)
    assert found.pop("preset") == "hpbandster"
    assert found == {
        "study": "all",
        "journal": str(tmp_path / "here.db"),
        "directory": str(tmp_path / "files"),
        "seed": 7,
        "workers": None,
        "checkpoint_quota": 10**9,
        "start_method": "spawn",
        "budgets": [1, 5, 25],
        "eta": 4,
        "max_seconds": 7200,
        "target_loss": 0.5,
        "trial_seconds": 60,
        "max_attempts": 5,
        "random_fraction": 0.5,
        "warm_start": [],
    }


def tanh(config: dict[str, Any]) -> bool:
    return bool(config["act"] == "tanh")


def samples(table: dict[str, Any], forbidden: list[str] | None = None) -> list[dict[str, Any]]:
    space = Space(build_space(table, forbidden or []))
    assert Space.from_json(space.to_json()).to_json() == space.to_json()
    return [space.sample(np.random.default_rng(i)) for i in range(200)]


def test_every_kind_of_hyperparameter_has_its_short_form() -> None:
    table: dict[str, Any] = {
        "lr": {"float": [1e-5, 1e-1], "log": True},
        "units": {"int": [16, 512], "log": True},
        "act": ["relu", "tanh"],
        "opt": {"choice": ["a", "b"], "weights": [0.9, 0.1]},
        "size": {"ordinal": ["s", "m", "l"]},
        "shape": [[3, 3], [5, 5]],
        "data": "mnist",
        "flag": [True, False],
    }
    drawn = samples(table)
    assert 30 < sum(c["lr"] < 1e-3 for c in drawn) < 170
    assert {type(c["units"]) for c in drawn} == {int}
    assert {c["act"] for c in drawn} == {"relu", "tanh"}
    assert sum(c["opt"] == "a" for c in drawn) > 150
    assert {c["size"] for c in drawn} == {"s", "m", "l"}
    assert {c["shape"] for c in drawn} == {(3, 3), (5, 5)}
    assert {c["data"] for c in drawn} == {"mnist"}
    assert {c["flag"] for c in drawn} == {True, False}


@pytest.mark.parametrize(
    ("clause", "holds"),
    [
        ("layers > 1", lambda c: c["layers"] > 1),
        ("layers >= 2 and act == relu", lambda c: c["layers"] >= 2 and c["act"] == "relu"),
        ("act != 'relu' or layers in [1, 4]", lambda c: c["act"] != "relu" or c["layers"] in (1, 4)),
        (
            "(act == tanh or layers < 2) and size <= m",
            lambda c: (c["act"] == "tanh" or c["layers"] < 2) and c["size"] in "sm",
        ),
        (
            "act == tanh or layers < 2 and size > s",
            lambda c: c["act"] == "tanh" or (c["layers"] < 2 and c["size"] in "ml"),
        ),
        ("flag == true", lambda c: c["flag"]),
    ],
)
def test_a_condition_means_what_it_says(clause: str, holds: Any) -> None:
    table: dict[str, Any] = {
        "layers": {"int": [1, 4]},
        "act": ["relu", "tanh"],
        "size": {"ordinal": ["s", "m", "l"]},
        "flag": [True, False],
        "child": {"float": [0, 1], "if": clause},
    }
    drawn = samples(table)
    assert [("child" in c) for c in drawn] == [bool(holds(c)) for c in drawn]
    assert 0 < sum("child" in c for c in drawn) < 200


def test_a_forbidden_clause_rules_out_what_it_says() -> None:
    table: dict[str, Any] = {"lo": {"float": [0, 1]}, "hi": {"float": [0, 1]}, "act": ["relu", "tanh", "elu"]}
    drawn = samples(table, ["lo > hi", "act in [relu, tanh] and hi >= 0.5"])
    assert all(c["lo"] <= c["hi"] for c in drawn)
    assert all(c["act"] == "elu" or c["hi"] < 0.5 for c in drawn)
    with pytest.raises(InvalidSpace, match="'!=' cannot be forbidden"):
        build_space(table, ["act != relu"])


@pytest.mark.parametrize(
    "text", ["", "a", "a >", "> 1", "a > 1 b", "a in 1", "a in [1", "(a > 1", "a > 1)", "a = 1", "a > 'x", "a ** 2 > 1"]
)
def test_a_clause_that_is_none_is_refused(text: str) -> None:
    def nothing(*parts: object) -> None: ...

    with pytest.raises(InvalidSpace):
        parse(text, nothing, nothing, nothing)


def test_a_clause_is_never_run_as_code(tmp_path: Path) -> None:
    hostile = f"__import__('os').system('touch {tmp_path}/x') > 1"
    with pytest.raises(InvalidSpace):
        build_space({"a": {"float": [0, 1]}, "b": {"float": [0, 1], "if": hostile}})
    assert list(tmp_path.iterdir()) == []


def test_a_space_may_be_an_object_a_function_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_own_space.py").write_text("SPACE = {'x': (0.0, 1.0)}\ndef make():\n    return SPACE\n")
    head, _, _ = STUDY.partition("[space]")
    for value in ("my_own_space:SPACE", "my_own_space:make"):
        assert load(written(tmp_path, f'space = "{value}"\n{head}')).space().names == ("x",)
    import json

    (tmp_path / "space.json").write_text(json.dumps(Space({"x": (0.0, 1.0)}).to_json(), default=str))
    assert load(written(tmp_path, f'space = "space.json"\n{head}')).space().names == ("x",)
    assert "must be a JSON file" in refused(tmp_path, f'space = "none.json"\n{head}')


def test_what_init_writes_is_a_study_file(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    assert "written" in call("init", path).stdout
    file = load(path)
    space = file.space()
    file.objective(space.names)
    assert "49 configurations" in call("plan", path).stdout
    before = path.read_text()
    assert "already exists" in complaint("init", path)
    assert path.read_text() == before


def test_a_file_may_name_the_preset_and_change_single_settings(tmp_path: Path) -> None:
    lines = 'preset = "paper"\nsettings = {num_samples = 32}'
    file = written(tmp_path, STUDY.replace("seed = 1", lines))
    call("run", file, "--max-trials", "1", "--quiet", "--workers", "0")
    with SqlJournal(tmp_path / "study.db", "bowl", read_only=True) as journal:
        assert History().extend(journal.read()).settings == Settings(num_samples=32)


def test_the_preset_is_best_unless_the_file_names_another(tmp_path: Path) -> None:
    call("run", written(tmp_path), "--max-trials", "1", "--quiet", "--workers", "0")
    with SqlJournal(tmp_path / "study.db", "bowl", read_only=True) as journal:
        assert History().extend(journal.read()).settings == PRESETS["best"]


def test_an_option_names_the_preset_and_single_settings_of_the_file_stay(tmp_path: Path) -> None:
    file = written(tmp_path, STUDY.replace("seed = 1", "settings = {num_samples = 5}"))
    call("run", file, "--preset", "hpbandster", "--max-trials", "1", "--quiet", "--workers", "0")
    with SqlJournal(tmp_path / "study.db", "bowl", read_only=True) as journal:
        assert History().extend(journal.read()).settings == PRESETS["hpbandster"].changed({"num_samples": 5})


def test_the_template_names_a_preset(tmp_path: Path) -> None:
    call("init", tmp_path / "study.toml")
    assert load(tmp_path / "study.toml").arguments["preset"] in PRESETS
