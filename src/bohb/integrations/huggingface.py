"""Hugging Face: a `Trainer` that trains a trial on its budget and continues from the checkpoint of the smaller one."""

from __future__ import annotations

from typing import Any, Literal

from bohb.core.trial import Trial
from bohb.errors import InvalidArgument, InvalidResult, MissingExtra, install_hint

try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"bohb.integrations.huggingface needs the package {error.name!r}: {install_hint('huggingface')}"
    ) from error

Unit = Literal["epochs", "steps"]
_TOLERANCE = 1e-6  # epochs; the Trainer counts them in fractions


class BudgetCallback(TrainerCallback):  # type: ignore[misc]  # the package is not followed, which would take minutes
    """Reports every evaluation as a point of the learning curve, and saves and stops when the budget is reached.

    trial: the trial that is trained.
    unit: what its budget counts, "epochs" or "steps".
    metric: what is reported, as the Trainer names it.
    """

    def __init__(self, trial: Trial, unit: Unit = "epochs", metric: str = "eval_loss") -> None:
        if unit not in ("epochs", "steps"):
            raise InvalidArgument(f"unit={unit!r} must be 'epochs' or 'steps'")
        self._trial, self._unit, self._metric = trial, unit, metric
        self.evaluated: tuple[int, dict[str, float]] = (-1, {})  # the step of the last evaluation, and its metrics

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Refuse a schedule that ends before the budget."""
        length = state.max_steps if self._unit == "steps" else state.num_train_epochs
        if length < self._trial.budget:
            name = "max_steps" if self._unit == "steps" else "num_train_epochs"
            raise InvalidArgument(
                f"the Trainer ends after {length} {self._unit}, before the budget of {self._trial.budget:g}; set "
                f"{name} to the largest budget of the study, so that the learning rate does not depend on the budget"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
        """Save a checkpoint and stop if the budget ends within an epoch."""
        at_the_end_of_an_epoch = abs(state.epoch - round(state.epoch)) < _TOLERANCE
        return control if at_the_end_of_an_epoch else self._stop_at_budget(state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
        """Save a checkpoint and stop if the budget is reached.

        Saving at the last step of the epoch would be too early: the evaluation that follows uses the random generator.
        """
        return self._stop_at_budget(state, control)

    def _stop_at_budget(self, state: Any, control: Any) -> Any:
        if self._done(state) >= self._trial.budget - _TOLERANCE:
            control.should_save = self._trial.checkpoint_dir is not None
            control.should_training_stop = True
        return control

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:  # noqa: ARG002
        """Report the metric."""
        self.evaluated = state.global_step, dict(metrics)
        if self._metric in metrics:
            self._trial.report(self._done(state), metrics[self._metric])

    def _done(self, state: Any) -> float:
        return float(state.global_step if self._unit == "steps" else state.epoch or 0.0)


def train(trainer: Trainer, trial: Trial, *, unit: Unit = "epochs", metric: str = "eval_loss") -> dict[str, Any]:
    """Train until the budget of a trial is reached, evaluate, and return the result of the objective.

    Training continues from the checkpoint in `trial.checkpoint_dir` if there is one, and leaves a new one there. Set
    `num_train_epochs` (or `max_steps`) to the largest budget and `seed` to `trial.seed`; then continued training is
    equal to training through.

    trainer: made for this trial, with an `eval_dataset`. Its `output_dir` is replaced.
    unit: what the budget counts, "epochs" or "steps".
    metric: the loss, as the Trainer names it; lower is better unless the study maximises.
    """
    callback = BudgetCallback(trial, unit, metric)
    trainer.add_callback(callback)
    checkpoint = None
    if trial.checkpoint_dir is not None:
        trainer.args.output_dir, trainer.args.save_total_limit = str(trial.checkpoint_dir), 1
        checkpoint = None if trial.previous_budget is None else get_last_checkpoint(trainer.args.output_dir)
    trainer.train(resume_from_checkpoint=checkpoint)
    step, metrics = callback.evaluated
    if step != trainer.state.global_step or metric not in metrics:
        metrics = trainer.evaluate()
    if metric not in metrics:
        raise InvalidResult(f"the Trainer measures no {metric!r}; it has {', '.join(sorted(metrics))}")
    info = {"steps": trainer.state.global_step, "continued": checkpoint is not None, **metrics}
    return {"loss": metrics[metric], "info": info}
