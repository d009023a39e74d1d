"""One of several processes on one Optuna study: `python -m tests.integrations.optuna_process KIND FILE`."""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from bohb.integrations.optuna import BOHBPruner, BOHBSampler

ENDED = 40  # trials, counting the pruned ones


def storage(kind: str, file: Path) -> BaseStorage:
    if kind == "journal":
        return JournalStorage(JournalFileBackend(str(file)))
    return RDBStorage(f"sqlite:///{file}")


def objective(trial: optuna.Trial) -> float:
    trial.set_user_attr("process", os.getpid())
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    width = trial.suggest_int("width", 16, 512) if trial.suggest_categorical("kind", ["net", "line"]) == "net" else 16
    if "BOHB_TEST_DIES" in os.environ and trial.number >= ENDED // 4:
        os.kill(os.getpid(), signal.SIGKILL)
    loss = abs(math.log10(rate) + 3) + abs(width - 100) / 100
    for epoch in range(9):
        trial.report(loss + 1 / (epoch + 1), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss


def main(kind: str, file: Path) -> None:
    sampler = BOHBSampler(1, 9, seed=1)
    study = optuna.load_study(
        study_name="study", storage=storage(kind, file), sampler=sampler, pruner=BOHBPruner(sampler)
    )
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(ENDED, states)])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
