"""Store evaluations that train for real, so that each is done once and an interrupted run loses none."""

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
    """A file of finished evaluations, one JSON object per line; several processes may append to it.

    An entry is used only if its code has the same fingerprint (see `fingerprint.code_digest`).
    """

    def __init__(self, path: Path | None, code: tuple[Path, ...]) -> None:
        """Open the file; it is read when the first row is needed.

        path: the file; None stores nothing.
        code: the files that decide the result of an evaluation.
        """
        self._path = path
        self._digest = code_digest(code)

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The stored rows by key; truncated lines are ignored."""
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
        """Return the stored row of an evaluation, or compute it and add the CPU seconds.

        compute: performs the evaluation and returns JSON data.
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
