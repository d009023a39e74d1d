"""Study: what `minimize` returns."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.history import History, Result
from bohb.core.schedule.plan import Plan
from bohb.core.trial import Outcome, Trial


@dataclass(frozen=True, slots=True)
class Study:
    """A study as it stands.

    history: everything that happened.
    stopped: why it stopped.
    """

    history: History
    stopped: str

    @property
    def incumbent(self) -> Result | None:
        """The best configuration: the largest budget counts first, then the lowest loss. None if nothing succeeded."""
        return self.history.incumbent

    @property
    def trajectory(self) -> list[Result]:
        """Every incumbent in turn."""
        return self.history.trajectory

    @property
    def trials(self) -> list[tuple[Trial, Outcome | None]]:
        """Every trial with its outcome, None while it is unfinished."""
        return [(trial, self.history.outcomes.get(n)) for n, trial in self.history.trials.items()]

    @property
    def failures(self) -> list[tuple[Trial, Outcome]]:
        """The trials that failed, with the cause."""
        return [(self.history.trials[n], o) for n, o in self.history.outcomes.items() if not o.ok]

    @property
    def cost(self) -> float:
        """Budget spent in full evaluations, promoted configurations counting for what they added."""
        return self.history.budget_spent / self.history.budgets[-1]

    def plan(self) -> Plan:
        """The table of the brackets that were opened."""
        return Plan(tuple(halving.bracket for halving in self.history.brackets) or self.history.round)

    def __str__(self) -> str:
        """A summary for people."""
        done, failed = len(self.history.outcomes), self.history.n_failed
        lines = [f"{done} trials ({failed} failed), cost of {self.cost:.1f} full evaluations; stopped: {self.stopped}"]
        best = self.incumbent
        if best is not None:
            lines.append(f"best loss {best.loss:.6g} on budget {best.budget:g} (trial {best.trial.number}):")
            lines += [f"  {name} = {value!r}" for name, value in best.config.items()]
        return "\n".join(lines)
