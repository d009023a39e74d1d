"""A study as tables: pure functions of a History, for plots, reports, the dashboard and your own analysis.

Nothing here draws, reads a clock or touches a file. Rows are frozen dataclasses. If there is not enough data yet, a
function returns an empty list or None.
"""

from bohb.analysis.agreement import (
    BracketChoice,
    Correlation,
    bracket_choice,
    bracket_choices,
    correlations,
    rung_agreement,
)
from bohb.analysis.axes import Axis, Configurations, axes, configurations, telling_budget
from bohb.analysis.beliefs import Densities, Marginal, densities
from bohb.analysis.clock import RunClock, Span, run_clock, timeline
from bohb.analysis.comparison import Comparison, comparison
from bohb.analysis.contour import Contour, contour
from bohb.analysis.evaluations import Evaluation, losses
from bohb.analysis.failures import Cause, failures
from bohb.analysis.importance import Importance, Importances, importance
from bohb.analysis.lineage import (
    Curve,
    Entry,
    Path,
    Picks,
    Record,
    RungTable,
    curves,
    paths,
    picks,
    records,
    rung_of,
    survival,
)
from bohb.analysis.summary import BudgetCount, Summary, summary
from bohb.analysis.trajectory import Moment, Step, Trajectory, trajectory
from bohb.analysis.why import Explanation, why

__all__ = [
    "Axis",
    "BracketChoice",
    "BudgetCount",
    "Cause",
    "Comparison",
    "Configurations",
    "Contour",
    "Correlation",
    "Curve",
    "Densities",
    "Entry",
    "Evaluation",
    "Explanation",
    "Importance",
    "Importances",
    "Marginal",
    "Moment",
    "Path",
    "Picks",
    "Record",
    "RunClock",
    "RungTable",
    "Span",
    "Step",
    "Summary",
    "Trajectory",
    "axes",
    "bracket_choice",
    "bracket_choices",
    "comparison",
    "configurations",
    "contour",
    "correlations",
    "curves",
    "densities",
    "failures",
    "importance",
    "losses",
    "paths",
    "picks",
    "records",
    "run_clock",
    "rung_agreement",
    "rung_of",
    "summary",
    "survival",
    "telling_budget",
    "timeline",
    "trajectory",
    "why",
]
