"""The claims of §5.1 and §5.2, each with the test that decides it from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.paper.claims.evidence import (
    FAILS,
    HOLDS,
    NOT_MEASURED,
    Comparison,
    Evidence,
    Finding,
    all_of,
    name,
    negated,
)
from benchmarks.paper.claims.why import (
    Why,
    close_to_random,
    crossing,
    few_slow_runs,
    hundredfold,
    later,
    runs_by_problem,
    runs_of,
    short_runs,
)

BLACK_BOX = ("tpe", "smac")
ENOUGH = 512  # full evaluations for a verdict on convergence; the paper has 8192
NETWORKS = ("adult", "higgs", "letter", "mnist", "optdigits", "poker")


@dataclass(frozen=True, slots=True)
class Claim:
    """One row.

    where: the section or figure.
    says: what the paper says, in our words.
    experiment: whose results decide; None if it was not repeated.
    test: the verdict from the results.
    why: a sentence from the results, for the case that it does not hold or is undecided.
    """

    where: str
    says: str
    experiment: str | None
    test: Callable[[Evidence], Finding]
    why: Why | None = None


def counting_ones() -> Iterator[Claim]:
    """§5.1 and Appendix H."""

    def on(d: int, test: Callable[..., Finding]) -> Callable[[Evidence], Finding]:
        return lambda e: test(e.on("counting_ones", f"counting_ones-{d // 2}-{d // 2}"))

    def both(test: Callable[..., Finding]) -> Callable[..., Finding]:
        return lambda c: all_of(test(c, m) for m in BLACK_BOX)

    def converged(e: Evidence) -> Finding:
        length = e.bodies.get("counting_ones", {}).get("full_evaluations", 0)
        if length < ENOUGH:
            return Finding(NOT_MEASURED, f"needs runs of {ENOUGH} full evaluations; these have {length:g}")
        c, level = e.on("counting_ones", "counting_ones-8-8"), 0.01 * 16
        others = [negated(c.converged(m, level)) for m in ("hyperband", "random", *BLACK_BOX)]
        return all_of([c.converged("bohb", level), *others])

    def rows(d: int, text: str, test: Callable[..., Finding], why: Why | None = None) -> Claim:
        return Claim("§5.1" if d == 16 else "§5.1, App. H", text, "counting_ones", on(d, test), why)

    yield rows(16, "Random search is soon dominated by SMAC and TPE", both(lambda c, m: c.lower(m, "random")))
    yield rows(
        16, "Hyperband is faster than SMAC and TPE in the beginning", both(lambda c, m: c.lower("hyperband", m, 1.0))
    )
    yield rows(16, "SMAC and TPE clearly outperform Hyperband in the end", both(lambda c, m: c.lower(m, "hyperband")))
    yield rows(16, "BOHB is as good as Hyperband in the beginning", lambda c: c.no_higher("bohb", "hyperband", 1.0))
    yield rows(16, "BOHB then quickly becomes better than Hyperband", lambda c: c.lower("bohb", "hyperband", 64.0))
    says = "BOHB alone converges within the budget (mean regret of at most 1 % of the range)"
    yield Claim("§5.1", says, "counting_ones", converged)
    yield rows(
        16,
        "SMAC and TPE need more evaluations than BOHB",
        both(lambda c, m: c.no_higher("bohb", m)),
    )
    for d in (8, 32):
        yield rows(
            d,
            f"The same in {d} dimensions: BOHB ends below Hyperband, random search, TPE and SMAC",
            lambda c: all_of(c.no_higher("bohb", m) for m in ("hyperband", "random", *BLACK_BOX)),
            crossing("counting_ones", [f"counting_ones-{d // 2}-{d // 2}"], "tpe"),
        )
    yield rows(
        64,
        "In 64 dimensions TPE and SMAC do better than BOHB",
        both(lambda c, m: c.lower(m, "bohb")),
        runs_of("counting_ones", "counting_ones-32-32", *BLACK_BOX),
    )


def svm() -> Iterator[Claim]:
    """§5.2.1."""

    def seconds(e: Evidence, method: str, level: float) -> float | None:
        body = e.bodies.get("svm", {})
        curve = body.get("recorded", {}).get(method) or e.on("svm", "svm_mnist").methods.get(method)
        x = e.on("svm", "svm_mnist").x
        if curve is None:
            return None
        return next((at for at, m in zip(x, curve["mean"], strict=True) if m is not None and m <= level), float("inf"))

    def race(
        rival: str, least: float, most: float = float("inf"), level: float = 1e-3
    ) -> Callable[[Evidence], Finding]:
        """The rival's time to a mean regret, divided by BOHB's, must lie between these."""

        def test(e: Evidence) -> Finding:
            ours, theirs = seconds(e, "bohb", level), seconds(e, rival, level)
            if ours is None or theirs is None or ours == float("inf"):
                return Finding(NOT_MEASURED)
            ratio = theirs / ours
            numbers = f"mean regret {level:g} after {ours:.3g} s; {name(rival)} after {theirs:.3g} s"
            return Finding(HOLDS if least <= ratio <= most else FAILS, numbers)

        return test

    yield Claim(
        "§5.2.1",
        "BOHB is similar to Fabolas (times to regret 0.001 within a factor 3)",
        "svm",
        race("fabolas", 1 / 3, 3),
    )
    yield Claim(
        "§5.2.1",
        "BOHB is slightly better than Hyperband (sooner at regret 0.001)",
        "svm",
        race("hyperband", 1),
        few_slow_runs,
    )
    yield Claim("§5.2.1, figure", "BOHB outperforms MTBO (sooner at regret 0.001)", "svm", race("mtbo", 1))
    yield Claim("§5.2.1", "BOHB is sooner than GP-BO with expected improvement on full data", "svm", race("ei", 1))
    yield Claim("§5.2.1", "BOHB is sooner than random search", "svm", race("random", 1))


def networks() -> Iterator[Claim]:
    """§5.2.2, Fig. 1 and Appendix E."""

    def each(test: Callable[[Comparison], Finding], sets: tuple[str, ...] = NETWORKS) -> Callable[[Evidence], Finding]:
        return lambda e: all_of(test(e.on("networks", f"networks-{data}")) for data in sets)

    def claim(text: str, test: Callable[[Evidence], Finding], why: Why | None = None, where: str = "§5.2.2") -> Claim:
        return Claim(where, text, "networks", test, why)

    bo = ("tpe", "gp-bo")
    yield claim(
        "Hyperband is much better than TPE and GP-BO in the beginning",
        each(lambda c: all_of(c.lower("hyperband", m, 1.0) for m in bo)),
    )
    yield claim(
        "Hyperband is roughly three times as fast as random search",
        each(lambda c: c.times_faster("hyperband", "random", 2)),
        close_to_random,
    )
    yield claim(
        "TPE and GP-BO end below Hyperband and random search",
        each(lambda c: all_of(c.lower(m, other) for m in bo for other in ("hyperband", "random"))),
        runs_of("networks", "networks-adult", *bo),
    )
    yield claim("BOHB and Hyperband start alike", each(lambda c: c.no_higher("bohb", "hyperband", 1.0)))
    yield claim(
        "BOHB reaches Hyperband's final performance 100 times faster (asked for here: 20)",
        each(lambda c: c.times_faster("bohb", "hyperband", 20)),
        hundredfold,
    )
    yield claim(
        "BOHB's final result is better than that of the other BO methods",
        each(lambda c: all_of(c.no_higher("bohb", m) for m in bo)),
        crossing("networks", ["networks-letter", "networks-poker"], "tpe"),
    )
    yield claim(
        "All model-based methods end substantially below random search",
        each(lambda c: all_of(c.lower(m, "random") for m in ("bohb", *bo))),
        runs_of("networks", "networks-adult", *bo),
    )
    yield claim(
        "TPE's and GP-BO's speed-up over random search is like BOHB's over Hyperband",
        each(lambda c: all_of([*(c.times_faster(m, "random", 5) for m in bo), c.times_faster("bohb", "hyperband", 5)])),
        short_runs,
    )
    lcnet = runs_by_problem("networks", [f"networks-{name}" for name in NETWORKS], "hb-lcnet")
    yield claim("HB-LCNet is somewhat better than Hyperband", each(lambda c: c.lower("hb-lcnet", "hyperband")), lcnet)
    yield claim("HB-LCNet is consistently worse than BOHB", each(lambda c: c.lower("bohb", "hb-lcnet")), lcnet)
    yield claim(
        "BOHB outperforms Hyperband after the first couple of brackets (8 full evaluations)",
        each(lambda c: c.lower("bohb", "hyperband", 8.0)),
        later,
        "App. E",
    )
    yield claim(
        "On letter traditional BO can have an advantage for very large budgets (TPE; GP-BO's runs are short)",
        each(lambda c: c.lower("tpe", "bohb"), ("letter",)),
        where="App. E",
    )
