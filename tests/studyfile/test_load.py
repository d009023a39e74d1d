"""The study file: what it can say, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bohb import History, Space
from bohb.core.settings import PRESETS, Settings
from bohb.journal import SqlJournal
from bohb.studyfile.load import StudyFileError, load
from bohb.units import memory, seconds
from tests.cli.running import STUDY, call, complaint, written


def used(file: Path) -> None:
    loaded = load(file)
    loaded.objective(loaded.space().names)


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
        (("seed = 1", f"seed = {'[' * 5000}{']' * 5000}"), "its arrays or tables are nested too deeply"),
        (("seed = 1", f"seed = {'{a=' * 5000}1{'}' * 5000}"), "its arrays or tables are nested too deeply"),
        (("[0, 1]", "[1, 0]"), "space.x = {float = [1, 0]}: the bounds must be finite numbers, the lower"),
        (("{float = [0, 1]}", "[0.1, 1]"), "write {float = [0.1, 1]} for a range, or {choice = [0.1, 1]}"),
        (("{float = [0, 1]}", '[1, 8, "log"]'), "write {int = [1, 8], log = true} for a range"),
        (("{float = [0, 1]}", "{float = [0, 1], log = true}"), "on a log scale the lower bound must be positive"),
        (("{float = [0, 1]}", '{float = [0, 1], if = "y > 1"}'), "'y' is not a hyperparameter of this space"),
        (("echo {x}", "echo {y}"), "command: {y} is unknown; use x, budget"),
        (
            ("seed = 1", "forbidden = ['x > 1']"),
            "unknown key 'forbidden' = [\"x > 1\"]; it belongs into the table [space]",
        ),
        (
            ("[space]\n", "[space]\nforbidden = ['x >']\n"),
            'space.forbidden = ["x >"]: it ends where a value should follow',
        ),
        (
            ("{float = [0, 1]}", "0.1"),
            "space.x = 0.1: write {float = [lower, upper]} for a range, a list for choices, {con",
        ),
        (
            ('command = "echo {x}"', 'objective = "nowhere"'),
            "objective = \"nowhere\" must be of the form 'module:name'",
        ),
        (('command = "echo {x}"', 'objective = "no_such_mod:f"'), "cannot be imported: ModuleNotFoundError"),
        (('command = "echo {x}"', 'objective = "math:no"'), "cannot be found: 'math' has no 'no'"),
        (('command = "echo {x}"', 'objective = "math:pi"'), "must be callable"),
        (("seed = 1", "settings = {num_sample = 2}"), "'settings.num_sample' = 2; did you mean 'num_samples'?"),
        (("seed = 1", 'preset = "mine"'), 'preset = "mine" must be one of best, paper, hpbandster'),
        (
            ("seed = 1", 'settings = {preset = "best"}'),
            "unknown key 'settings.preset' = \"best\"; it belongs at the top",
        ),
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
