"""Evaluations that train for real, each done once: an interrupted run loses none of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.fingerprint import code_digest
from benchmarks.problem import Config
from benchmarks.report import ROOT

KEPT = ROOT / ".cache" / "benchmarks" / "evaluations"
Row = Mapping[str, Any]


class Evaluations:
    """A file of finished evaluations, one JSON object per line, which several processes may add to.

    An entry counts as long as the code that made it is the same but for comments and layout.
    """

    def __init__(self, path: Path | None, code: tuple[Path, ...]) -> None:
        """Open it; nothing is read before the first question.

        path: the file; None keeps nothing.
        code: the files that decide what an evaluation gives.
        """
        self._path = path
        self._digest = code_digest(code)

    @cached_property
    def rows(self) -> dict[str, Row]:
        """What has been kept; a line that was cut off is left out."""
        kept: dict[str, Row] = {}
        for line in self._path.read_text().splitlines() if self._path is not None and self._path.exists() else ():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if row["code"] == self._digest:
                kept[row["key"]] = row
        return kept

    def get(self, config: Config, budget: float, seed: int, compute: Callable[[], Row]) -> Row:
        """The row of an evaluation: the one that was kept, or a new one with the CPU seconds it took.

        compute: does the evaluation; what it returns must be JSON.
        """
        key = json.dumps([sorted(config.items()), budget, seed])
        if key not in self.rows:
            begun = time.process_time()
            row = dict(compute())
            row |= {"seconds": round(time.process_time() - begun, 3), "code": self._digest, "key": key}
            self.rows[key] = row
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        return self.rows[key]
