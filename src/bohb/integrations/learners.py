"""Train with PyTorch, Lightning, Keras, XGBoost, LightGBM or Hugging Face until the budget of a trial is reached.

Each epoch or round is reported as a point of the learning curve. Training continues from the checkpoint that the
configuration left on its smaller budget, and leaves a new one. The libraries are imported when they are first used.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bohb.core.trial import Trial
from bohb.errors import InvalidArgument, InvalidResult, MissingExtra, install_hint

Unit = Literal["epochs", "steps"]
Result = dict[str, Any]
_TOLERANCE = 1e-6  # epochs; Hugging Face counts them in fractions


def epochs(trial: Trial, **parts: Any) -> Iterator[int]:
    """Yield the epochs that a trial has to train with PyTorch, numbered from 0.

    The checkpoint is restored before the first of them, and written after the last one. It has the state of the random
    generators, too, so that continued training equals uninterrupted training.

    parts: all that training changes, such as model=… and optimizer=…; each has `state_dict` and `load_state_dict`.
    """
    torch = _library("torch")
    first, last, path = 0, _whole_budget(trial), _stored(trial, "torch.pt")
    if path is not None:
        state = torch.load(path)
        first = state["epochs"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
        _restore_generators(state["generators"])
    yield from range(first, last)
    if trial.checkpoint_dir is not None:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({**states, "epochs": last, "generators": _generators()}, trial.checkpoint_dir / "torch.pt")


def train_lightning(trial: Trial, trainer: Any, model: Any, *, metric: str = "val_loss", **data: Any) -> Result:
    """Fit a model of Lightning, and return the result of the objective.

    Continued training equals uninterrupted training if `seed_everything(trial.seed)` comes before the model.

    trainer: its `max_epochs` is the largest budget of the study, so that no schedule depends on the trial's budget.
    metric: the loss, as the model logs it in every epoch.
    data: the data, as for `trainer.fit`.
    """
    callbacks = _library("lightning").pytorch.callbacks
    last, path = _whole_budget(trial), _stored(trial, "lightning.ckpt")
    _check_length(trial, trainer.max_epochs, "epochs", "max_epochs")

    def report(trainer: Any, _: Any) -> None:
        trial.report(trainer.current_epoch + 1, _measured(trainer.callback_metrics, metric).item())
        trainer.should_stop = trainer.should_stop or trainer.current_epoch + 1 >= last

    trainer.callbacks.append(
        callbacks.LambdaCallback(
            on_train_epoch_end=report,
            on_save_checkpoint=lambda _, __, checkpoint: checkpoint.update(generators=_generators()),
            on_load_checkpoint=lambda _, __, checkpoint: _restore_generators(checkpoint["generators"]),
        )
    )
    trainer.fit(model, ckpt_path=path, **data)
    if trial.checkpoint_dir is not None:
        trainer.save_checkpoint(trial.checkpoint_dir / "lightning.ckpt")
    return _result(trial, {name: value.item() for name, value in trainer.callback_metrics.items()}, metric)


def train_keras(trial: Trial, model: Any, *data: Any, metric: str = "val_loss", **options: Any) -> Result:
    """Fit a compiled model of Keras 3, and return the result of the objective.

    Each epoch begins with `keras.utils.set_random_seed`, so that continued training equals uninterrupted training if
    the data do not have a random generator of their own.

    metric: the loss, as Keras names it in every epoch.
    data, options: as for `model.fit`; nothing is printed unless `verbose` is given.
    """
    keras = _library("keras")
    first, last, path = 0, _whole_budget(trial), _stored(trial, "keras.npz")
    if not model.built:
        raise InvalidArgument("the model has no weights yet; begin it with keras.Input(shape)")
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]  # the state of dropout is among them
    if path is not None:
        with np.load(path) as stored:
            first = int(stored["epochs"])
            for index, variable in enumerate(variables):
                variable.assign(stored[f"arr_{index}"])
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: keras.utils.set_random_seed((trial.seed + epoch) % 2**32),
        on_epoch_end=lambda epoch, logs: trial.report(epoch + 1, _measured(logs, metric)),
    )
    options = {"verbose": 0, **options, "callbacks": [*options.get("callbacks", ()), callback]}
    history = model.fit(*data, initial_epoch=first, epochs=last, **options).history
    if trial.checkpoint_dir is not None:
        arrays = [keras.ops.convert_to_numpy(variable) for variable in variables]
        np.savez(trial.checkpoint_dir / "keras.npz", *arrays, epochs=np.array(last))
    return _result(trial, {name: values[-1] for name, values in history.items()}, metric)


def train_xgboost(
    trial: Trial, params: Mapping[str, Any], train: Any, valid: Any, *, metric: str | None = None, **options: Any
) -> Result:
    """Boost with XGBoost until there are as many rounds as the budget, and return the result of the objective.

    params: as for `xgboost.train`; `seed` is the trial's unless it is given.
    train, valid: two DMatrix, to train on and to measure.
    metric: the loss, as `eval_metric` names it; by default the last one.
    options: others of `xgboost.train`.
    """
    xgboost = _library("xgboost")
    base: Any = xgboost.callback.TrainingCallback
    last, path = _whole_budget(trial), _stored(trial, "xgboost.ubj")
    before = None if path is None else xgboost.Booster(model_file=path)
    measured: dict[str, float] = {}

    class Report(base):  # type: ignore[misc]  # imported in this function
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002 - counts anew
            measured.update({name: values[-1] for name, values in evals_log["valid"].items()})
            trial.report(model.num_boosted_rounds(), _measured(measured, metric))
            return False

    booster = xgboost.train(
        {"seed": trial.seed, **params},
        train,
        num_boost_round=last - (0 if before is None else before.num_boosted_rounds()),
        xgb_model=before,
        evals=[(valid, "valid")],
        callbacks=[*options.pop("callbacks", ()), Report()],
        **{"verbose_eval": False, **options},
    )
    if trial.checkpoint_dir is not None:
        booster.save_model(trial.checkpoint_dir / "xgboost.ubj")
    return _result(trial, measured, metric)


def train_lightgbm(
    trial: Trial, params: Mapping[str, Any], train: Any, valid: Any, *, metric: str | None = None, **options: Any
) -> Result:
    """Boost with LightGBM until there are as many rounds as the budget, and return the result of the objective.

    params: as for `lightgbm.train`; `seed` is the trial's and `verbose` is -1 unless they are given.
    train, valid: two Dataset, to train on and to measure; with `free_raw_data=False` if other trials use them, too.
    metric: the loss, as LightGBM names it; by default the last one.
    options: others of `lightgbm.train`.
    """
    lightgbm = _library("lightgbm")
    last, path = _whole_budget(trial), _stored(trial, "lightgbm.txt")
    before = None if path is None else lightgbm.Booster(model_file=path)
    measured: dict[str, float] = {}

    def report(environment: Any) -> None:
        measured.update({name: value for _, name, value, *_ in environment.evaluation_result_list})
        trial.report(environment.iteration + 1, _measured(measured, metric))

    booster = lightgbm.train(
        {"seed": trial.seed, "verbose": -1, **params},
        train,
        num_boost_round=last - (0 if before is None else before.current_iteration()),
        init_model=before,
        valid_sets=[valid],
        valid_names=["valid"],
        callbacks=[*options.pop("callbacks", ()), report],
        **options,
    )
    if trial.checkpoint_dir is not None:
        booster.save_model(trial.checkpoint_dir / "lightgbm.txt")
    return _result(trial, measured, metric)


def train_huggingface(trial: Trial, trainer: Any, *, unit: Unit = "epochs", metric: str = "eval_loss") -> Result:
    """Train with a Trainer of Hugging Face, and return the result of the objective.

    Continued training equals uninterrupted training if the Trainer has `seed=trial.seed`.

    trainer: made for this trial, with an `eval_dataset`. Its `num_train_epochs` (or `max_steps`) is the largest budget
        of the study. Its `output_dir` is replaced.
    unit: what the budget counts, "epochs" or "steps".
    metric: the loss, as the Trainer names it.
    """
    callback = huggingface_callback(trial, unit, metric)
    trainer.add_callback(callback)
    checkpoint = None
    if trial.checkpoint_dir is not None:
        trainer.args.output_dir, trainer.args.save_total_limit = str(trial.checkpoint_dir), 1
        if trial.previous_budget is not None:
            checkpoint = _library("transformers").trainer_utils.get_last_checkpoint(trainer.args.output_dir)
    trainer.train(resume_from_checkpoint=checkpoint)
    step, metrics = callback.evaluated
    if step != trainer.state.global_step or metric not in metrics:
        metrics = trainer.evaluate()
    return _result(trial, {"steps": trainer.state.global_step, **metrics}, metric)


def huggingface_callback(trial: Trial, unit: Unit = "epochs", metric: str = "eval_loss") -> Any:
    """Return what `train_huggingface` adds to a Trainer, for those who call `trainer.train` themselves.

    The TrainerCallback reports every evaluation, and saves and stops when the budget is reached.
    """
    if unit not in ("epochs", "steps"):
        raise InvalidArgument(f"unit={unit!r} must be 'epochs' or 'steps'")
    base = _library("transformers", install_hint("huggingface")).TrainerCallback
    return type("BudgetCallback", (_StopAtBudget, base), {})(trial, unit, metric)


class _StopAtBudget:
    """The methods of a TrainerCallback; the base class is imported when one is made.

    evaluated: the step of the last evaluation, and its metrics.
    """

    def __init__(self, trial: Trial, unit: Unit, metric: str) -> None:
        self._trial, self._unit, self._metric = trial, unit, metric
        self.evaluated: tuple[int, dict[str, float]] = (-1, {})

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        name = "max_steps" if self._unit == "steps" else "num_train_epochs"
        _check_length(self._trial, getattr(state, name), self._unit, name)

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop if the budget ends within an epoch."""
        at_the_end_of_an_epoch = abs(state.epoch - round(state.epoch)) < _TOLERANCE
        return control if at_the_end_of_an_epoch else self._stop_at_budget(state, control)

    def on_epoch_end(self, _args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop; at the last step it would be too early: the evaluation that follows uses the random generator."""
        return self._stop_at_budget(state, control)

    def on_evaluate(self, _args: Any, state: Any, _control: Any, metrics: dict[str, float], **_: Any) -> None:
        self.evaluated = state.global_step, dict(metrics)
        if self._metric in metrics:
            self._trial.report(self._done(state), metrics[self._metric])

    def _stop_at_budget(self, state: Any, control: Any) -> Any:
        if self._done(state) >= self._trial.budget - _TOLERANCE:
            control.should_save = self._trial.checkpoint_dir is not None
            control.should_training_stop = True
        return control

    def _done(self, state: Any) -> float:
        return float(state.global_step if self._unit == "steps" else state.epoch or 0.0)


def _library(name: str, hint: str = "") -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = hint or f"pip install {error.name}"
        raise MissingExtra(f"bohb.integrations.learners needs the package {error.name!r}: {hint}") from error


def _whole_budget(trial: Trial) -> int:
    if not float(trial.budget).is_integer():
        raise InvalidArgument(
            f"the budget {trial.budget:g} is not a whole number of epochs or rounds; use integer_budgets=True"
        )
    return int(trial.budget)


def _stored(trial: Trial, name: str) -> Path | None:
    """Return the file that the configuration has left on its smaller budget, or None."""
    if trial.checkpoint_dir is None or trial.previous_budget is None:
        return None
    path = trial.checkpoint_dir / name
    return path if path.exists() else None


def _check_length(trial: Trial, length: float | None, unit: Unit, name: str) -> None:
    """Refuse a training that would end before the budget; None and -1 have no end."""
    if length is not None and 0 <= length < trial.budget:
        raise InvalidArgument(
            f"the Trainer ends after {length} {unit}, before the budget of {trial.budget:g}; set {name} to the "
            "largest budget of the study, so that the learning rate does not depend on the budget"
        )


def _measured(metrics: Mapping[str, Any], metric: str | None) -> Any:
    """Return the value of a metric, by default of the last one."""
    name = metric or ([*metrics] or ["metric"])[-1]
    if name not in metrics:
        raise InvalidResult(f"the training measures no {name!r}; it has {', '.join(sorted(metrics)) or 'no metric'}")
    return metrics[name]


def _result(trial: Trial, metrics: Mapping[str, float], metric: str | None) -> Result:
    """Return a metric as the loss; metrics that the study names are values, and `info` has all."""
    named = {} if trial.goals.plain else metrics
    return {**named, trial.goals.label: _measured(metrics, metric), "info": dict(metrics)}


def _generators() -> dict[str, Any]:
    """Return the state of all random generators, as torch.load accepts it."""
    torch = _library("torch")
    algorithm, keys, *rest = np.random.get_state()  # noqa: NPY002 - users' data sets may draw from it
    return {
        "python": random.getstate(),
        "numpy": (str(algorithm), np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def _restore_generators(state: Mapping[str, Any]) -> None:
    torch = _library("torch")
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
