"""A worker written for HpBandSter, unchanged, without its name server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ConfigSpace import ConfigurationSpace, Float

import bohb
from bohb.integrations.hpbandster import objective_of

try:
    from hpbandster.core.worker import Worker  # type: ignore[import-not-found]
except ImportError:  # it takes an old numpy, and what is used of it is this:

    class Worker:  # type: ignore[no-redef]
        """Keeps its name."""

        def __init__(self, run_id: str, **_: Any) -> None:
            self.run_id = run_id


class Regression(Worker):  # type: ignore[misc]
    """Fits a line by gradient descent, `budget` steps in all; a larger budget continues the smaller one."""

    def __init__(self, *args: Any, points: int = 50, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data = [(i / points, 2 * i / points - 1) for i in range(points)]

    def compute(self, config: dict[str, Any], budget: float, working_directory: str, **kwargs: Any) -> dict[str, Any]:
        file = Path(working_directory) / "line.json"
        a, b, done = json.loads(file.read_text()) if file.exists() else (0.0, 0.0, 0)
        for _ in range(done, round(budget)):
            errors = [(x, a * x + b - y) for x, y in self.data]
            a -= config["lr"] * sum(2 * e * x for x, e in errors) / len(errors)
            b -= config["lr"] * sum(2 * e for _, e in errors) / len(errors)
        file.write_text(json.dumps([a, b, round(budget)]))
        loss = sum((a * x + b - y) ** 2 for x, y in self.data) / len(self.data)
        return {"loss": loss, "info": {"continued_from": done, "id": kwargs["config_id"]}}

    @staticmethod
    def get_configspace() -> ConfigurationSpace:
        return ConfigurationSpace({"lr": Float("lr", (1e-4, 1.0), log=True)})


if __name__ == "__main__":
    worker = Regression(nameserver="127.0.0.1", run_id="example")
    study = bohb.minimize(
        objective_of(worker), worker.get_configspace(), min_budget=3, max_budget=81, seed=1, max_brackets=4
    )
    continued = sum(result.outcome.info["continued_from"] > 0 for result in study.history.results)
    print(f"{continued} of {len(study.trials)} trials continued; best loss {study.incumbent.loss:.2g}")  # type: ignore[union-attr]
