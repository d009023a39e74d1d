"""Say why a claim does not hold or is undecided, with numbers from the result files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.paper.claims.evidence import (
    FAILS,
    HOLDS,
    NOT_MEASURED,
    UNDECIDED,
    Comparison,
    Evidence,
    Finding,
    name,
)

Why = Callable[[Evidence], str]


def explanation(finding: Finding, why: Why | None, evidence: Evidence) -> str:
    """Return where the claim holds and where not, and the claim's own sentence."""
    return " ".join(text for text in (tally(finding), why(evidence) if why else "") if text)


def tally(finding: Finding) -> str:
    """Return in how many comparisons a claim holds, and the differences in the others, in standard errors."""
    parts = [part for part in finding.parts or (finding,) if part.verdict != NOT_MEASURED]
    if len(parts) == 1:
        text = "" if parts[0].gap is None else f"The difference is {_signed(parts[0].gap)} standard errors."
        return text + _more_runs(parts)
    holding = sum(part.verdict == HOLDS for part in parts)
    if not holding and len({part.verdict for part in parts}) == 1 and parts[0].gap is None:
        return f"It holds in none of {len(parts)} comparisons."
    groups = []
    for verdict in (FAILS, UNDECIDED):
        listed = [_with_gap(part) for part in parts if part.verdict == verdict and part.about]
        if listed:
            groups.append(f"{verdict} for {', '.join(listed)}")
    return "; ".join([f"It holds in {holding} of {len(parts)} comparisons", *groups]) + "." + _more_runs(parts)


def _signed(gap: float) -> str:
    return f"{gap:+.1f}".replace("-", "−")


def _with_gap(part: Finding) -> str:
    return part.about if part.gap is None else f"{part.about} ({_signed(part.gap)})"


def _more_runs(parts: Iterable[Finding]) -> str:
    """Return how many times as many runs would decide all undecided comparisons, if all of them favour the claim."""
    gaps = [part.gap for part in parts if part.verdict == UNDECIDED and part.gap is not None]
    if not gaps or min(gaps) < 0.5:
        return ""
    return f" If the means stayed as they are, {(2 / min(gaps)) ** 2:.1f} times as many runs would decide."


def runs_of(experiment: str, problem: str, *methods: str) -> Why:
    """Return how many runs the methods have, and how long they are."""

    def why(e: Evidence) -> str:
        c = e.on(experiment, problem)
        known = [(name(m), c.methods[m]) for m in methods if m in c.methods]
        texts = [f"{label} has {entry['runs']} runs of {entry['at'] / c.unit:.3g}" for label, entry in known]
        return f"{' and '.join(texts)} full evaluations each." if texts else ""

    return why


def runs_by_problem(experiment: str, problems: Sequence[str], method: str) -> Why:
    """Return on which problems the method has how many runs."""

    def why(e: Evidence) -> str:
        where: dict[int, list[str]] = {}
        for problem in problems:
            known = e.on(experiment, problem).methods.get(method)
            if known is not None:
                where.setdefault(known["runs"], []).append(problem)
        counts = [f"{runs} runs on {', '.join(where[runs])}" for runs in sorted(where, reverse=True)]
        return f"{name(method)} has {' and '.join(counts)}." if counts else ""

    return why


def crossing(experiment: str, problems: Sequence[str], rival: str) -> Why:
    """Return where the rival's mean goes below BOHB's, and how much both still fall from there to the end."""

    def one(c: Comparison) -> str:
        pairs = zip(c.x, c.methods["bohb"]["mean"], c.methods[rival]["mean"], strict=True)
        x = next((x for x, ours, theirs in pairs if ours is not None and theirs is not None and theirs < ours), None)
        if x is None:
            return f"on {c.problem} BOHB's mean is always below {name(rival)}'s"
        falls = []
        for method in ("bohb", rival):
            here, end = c.at(method, x / c.unit), c.final(method)
            assert here is not None
            assert end is not None
            falls.append(100 * (1 - end.mean / here.mean))
        return (
            f"on {c.problem} BOHB's mean is below {name(rival)}'s until {x / c.unit:.0f} full evaluations, and from "
            f"there to the end it falls by {falls[0]:.0f} % and {name(rival)}'s by {falls[1]:.0f} %"
        )

    def why(e: Evidence) -> str:
        comparisons = [e.on(experiment, problem) for problem in problems]
        texts = [one(c) for c in comparisons if "bohb" in c.methods and rival in c.methods]
        return f"It depends on the length: {'; '.join(texts)}." if texts else ""

    return why


def hundredfold(e: Evidence) -> str:
    """How far BOHB is after 1/100 of Hyperband's run, and how much Hyperband still improves in its second half."""
    early, late = [], []
    for problem in e.problems("networks"):
        c = e.on("networks", problem)
        length = e.bodies["networks"]["full_evaluations"]
        ours, half, end = c.at("bohb", length / 100), c.at("hyperband", length / 2), c.final("hyperband")
        if ours is None or half is None or end is None:
            return ""
        early.append(ours.mean / end.mean)
        late.append(100 * (1 - end.mean / half.mean))
    if not early:
        return ""
    return (
        f"Hyperband's mean regret falls by {min(late):.0f} to {max(late):.0f} % in the second half of its runs, and "
        f"after a hundredth of them BOHB's is still {min(early):.1f} to {max(early):.1f} times Hyperband's final one. "
        "We did not test whether our coarser surrogates are the reason."
    )


def close_to_random(e: Evidence) -> str:
    """How far random search ends above Hyperband."""
    texts = []
    for problem in e.problems("networks"):
        c = e.on("networks", problem)
        ours, theirs = c.final("hyperband"), c.final("random")
        if ours is not None and theirs is not None:
            gap = _signed(ours.gap(theirs) or 0.0)
            texts.append(f"{theirs.mean / ours.mean:.2f} on {problem.partition('-')[2]} ({gap})")
    return f"Random search's final regret divided by Hyperband's is {', '.join(texts)}." if texts else ""


def short_runs(e: Evidence) -> str:
    """How much longer random search takes for what GP-BO's short runs reach."""
    texts = []
    for problem in e.problems("networks"):
        c = e.on("networks", problem)
        if not {"gp-bo", "random"} <= set(c.methods):
            return ""
        length = c.methods["gp-bo"]["at"]
        end = c.at("gp-bo", length / c.unit)
        assert end is not None
        x = c.reaches("random", end.mean)
        times = f"{x / length:.1f}" if x is not None else f"more than {c.methods['random']['at'] / length:.0f}"
        texts.append(f"{times} on {problem.partition('-')[2]}")
    if not texts:
        return ""
    return (
        f"Length: GP-BO's runs end after {length / c.unit:.0f} full evaluations. Random search takes this many times "
        f"as long for the same regret: {', '.join(texts)}."
    )


def later(e: Evidence) -> str:
    """After how many full evaluations BOHB is below Hyperband on all data sets."""
    problems = e.problems("networks")
    counts = {
        x: sum(e.on("networks", problem).lower("bohb", "hyperband", x).verdict == HOLDS for problem in problems)
        for x in (16.0, 32.0, 64.0, 128.0)
    }
    texts = [f"{count} after {x:.0f}" for x, count in counts.items()]
    return f"Of {len(problems)} data sets it holds on {', '.join(texts)} full evaluations." if problems else ""


def few_slow_runs(e: Evidence) -> str:
    """How far apart BOHB and Hyperband are on the SVM, when Hyperband is at a mean regret of 0.001 and at the end."""
    c = e.on("svm", "svm_mnist")
    x = c.reaches("hyperband", 1e-3)
    ours, theirs = (c.at(m, (x or 0.0) / c.unit) for m in ("bohb", "hyperband"))
    if x is None or ours is None or theirs is None:
        return ""
    gap = theirs.gap(ours) or 0.0
    found = [
        f"{sum(final == 0 for final in c.methods[m]['final'].values())} of {c.methods[m]['runs']} runs of {name(m)}"
        for m in ("bohb", "hyperband")
    ]
    return (
        f"Seeds: after {x:.0f} s BOHB has {ours} and Hyperband {theirs}, {gap:.1f} standard "
        f"errors apart; at the end {' and '.join(found)} have found the optimum."
    )


def mean_curves(workers: Sequence[int]) -> Why:
    """Return the speed-ups read from mean curves, and the interval of the speed-up with two workers."""

    def why(e: Evidence) -> str:
        rows = [
            r
            for r in e.bodies.get("parallel", {}).get("rows", [])
            if r["variant"] == "plain" and r["workers"] in workers and r["reached"] >= 0.9 * r["runs"]
        ]
        rows = [r for r in rows if r["problem"] == "networks-letter" and r["by mean curve"]]
        if not any(r["workers"] == 2 for r in rows):
            return ""
        texts = [f"{r['by mean curve']:.1f} with {r['workers']} (to {r['regret']:.2g})" for r in rows]
        share = min(r["by mean curve"] / r["workers"] for r in rows)
        two = [r for r in rows if r["workers"] == 2]
        low, high = min(r["95 % from"] for r in two), max(r["to"] for r in two)
        skew = [r["mean time"] / r["median time"] for r in two]
        return (
            f"Seeds: slow runs dominate the mean time, which with 2 workers is {min(skew):.1f} to {max(skew):.1f} "
            f"times the median; with {two[0]['runs']} runs the 95 % interval of the speed-up with 2 workers goes from "
            f"{low:.1f} to {high:.1f}. Read from the mean curves, the speed-ups are "
            f"{', '.join(texts)}, at least {100 * share:.0f} % of linear."
        )

    return why


def model_costs(e: Evidence) -> str:
    """What a suggestion of the Gaussian process and of BOHB costs."""
    c = e.on("counting_ones", "counting_ones-8-8")
    if not {"bohb", "gp-budget"} <= set(c.methods):
        return ""
    times = [1000 * c.methods[m]["cpu_seconds"] / c.methods[m]["evaluations"] for m in ("gp-budget", "bohb")]
    return (
        "The difference on counting ones is so large that more runs would not change the verdict. An "
        f"evaluation there takes {times[0]:.1f} ms of the Gaussian process's CPU time and {times[1]:.1f} ms of BOHB's."
    )
