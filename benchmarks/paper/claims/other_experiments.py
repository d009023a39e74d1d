"""The claims of §5.3 to §5.5, of the appendices and of this project, each with the test that decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.paper.claims.evidence import (
    FAILS,
    HOLDS,
    NOT_MEASURED,
    UNDECIDED,
    Comparison,
    Evidence,
    Finding,
    all_of,
)
from benchmarks.paper.claims.surrogate_problems import Claim, counting_ones, networks, svm
from benchmarks.paper.claims.why import mean_curves, model_costs, runs_of

SEEDS = 20  # per problem, for a verdict on HpBandSter


def trained() -> Iterator[Claim]:
    """§5.3 and §5.4: problems that train."""

    def bnn(test: Callable[[Comparison], Finding], *sets: str) -> Callable[[Evidence], Finding]:
        return lambda e: all_of(test(e.on("bnn", f"bnn-{data}")) for data in sets or ("boston", "protein"))

    def cartpole(test: Callable[[Comparison], Finding]) -> Callable[[Evidence], Finding]:
        return lambda e: test(e.on("cartpole", "cartpole"))

    yield Claim(
        "§5.3", "Hyperband is better than TPE in the beginning", "bnn", bnn(lambda c: c.lower("hyperband", "tpe", 1.0))
    )
    yield Claim("§5.3", "TPE catches up with Hyperband", "bnn", bnn(lambda c: c.no_higher("tpe", "hyperband")))
    yield Claim(
        "§5.3",
        "BOHB converges faster than Hyperband and TPE",
        "bnn",
        bnn(lambda c: all_of(c.times_faster("bohb", m, 1.0) for m in ("hyperband", "tpe"))),
    )
    yield Claim(
        "§5.3",
        "BOHB finds a better configuration than Hyperband and TPE on Boston housing",
        "bnn",
        bnn(lambda c: all_of(c.lower("bohb", m) for m in ("hyperband", "tpe")), "boston"),
    )
    yield Claim(
        "§5.4", "BOHB and Hyperband are equally good in the beginning", "cartpole",
        cartpole(lambda c: c.no_higher("bohb", "hyperband", 1.0)),
    )  # fmt: skip
    yield Claim(
        "§5.4",
        "BOHB ends better than Hyperband",
        "cartpole",
        cartpole(lambda c: c.lower("bohb", "hyperband")),
        runs_of("cartpole", "cartpole", "bohb"),
    )
    yield Claim(
        "§5.4",
        "The budget is too small for TPE to find as good a configuration",
        "cartpole",
        cartpole(lambda c: c.lower("bohb", "tpe")),
    )


def image_classification() -> Iterator[Claim]:
    """§5.5."""

    def elsewhere(e: Evidence) -> Finding:
        body = e.bodies.get("cifar10")
        if body is None:
            return Finding(NOT_MEASURED)
        minutes = sum(run["seconds"] for run in (*body["studies"], *body["winners"])) / 60
        longest = max(body["winners"], key=lambda winner: winner["epochs"])
        reached = f"{100 * longest['test_error']:.2f} % after {longest['epochs']} of 600 epochs, one run"
        scale = f"not at the paper's scale: [{minutes:.0f} GPU minutes](cifar10.md) instead of 33 GPU days"
        return Finding(NOT_MEASURED, f"{scale}; {reached}")

    for says in (
        "16 brackets of BOHB reach a test error of 2.78 % ± 0.09 % on CIFAR-10",
        "That is better than the network's authors obtained, and than two architecture searches (3.65 % and 3.41 %)",
        "It does not quite reach 2.4 % and 2.1 %, which took 60 to 95 times the resources",
        "It takes 33 GPU days, less than 3 full evaluations on each of the 19 workers",
    ):
        yield Claim("§5.5", says, "cifar10", elsewhere)


def parallel() -> Iterator[Claim]:
    """Fig. 3 and Appendix F."""

    def speedups(e: Evidence, workers: tuple[int, ...], share: float) -> Finding:
        rows = [r for r in e.bodies.get("parallel", {}).get("rows", []) if r["variant"] == "plain"]
        # Runs that do not get there count with their end, so few of them may be among one worker's or many's.
        one = {(r["problem"], r["regret"]) for r in rows if r["workers"] == 1 and r["reached"] >= 0.9 * r["runs"]}
        rows = [r for r in rows if (r["problem"], r["regret"]) in one and r["reached"] >= 0.9 * r["runs"]]
        paper = [r for r in rows if r["problem"] == "networks-letter"]
        found = [r for r in paper or rows if r["workers"] in workers and r["speed-up"] is not None]
        if not found:
            return Finding(NOT_MEASURED)
        numbers = "; ".join(
            f"{r['problem']} to {r['regret']:.2g}, {r['workers']} workers: {r['speed-up']:.1f}×" for r in found
        )
        return Finding(HOLDS if all(r["speed-up"] >= share * r["workers"] for r in found) else FAILS, numbers)

    yield Claim(
        "Fig. 3",
        "The speed-up is close to linear for 2 and 4 workers (at least 3/4 of it)",
        "parallel",
        lambda e: speedups(e, (2, 4), 0.75),
        mean_curves((2, 4)),
    )
    yield Claim(
        "App. F",
        "It is almost linear for 2 to 8 workers (at least 3/4 of it)",
        "parallel",
        lambda e: speedups(e, (2, 4, 8), 0.75),
        mean_curves((2, 4, 8)),
    )
    yield Claim(
        "Fig. 3", "32 workers are about 15 times as fast as one", "parallel", lambda e: speedups(e, (32,), 15 / 32)
    )


def appendices() -> Iterator[Claim]:
    """Appendices B and G."""

    def insensitive(e: Evidence) -> Finding:
        """Other values of η in a reasonable range end within a factor 2 of η = 3."""
        findings = []
        for problem, scans in e.bodies.get("hyperparameters", {}).get("scans", {}).items():
            means = {value: entry[0] for value, entry in scans["eta"].items() if float(value) <= 4}
            if "3" in means and len(means) > 1:
                numbers = f"{problem}: " + ", ".join(f"η = {value}: {mean:.2g}" for value, mean in means.items())
                worst = max(means.values()) / max(means["3"], 1e-12)
                findings.append(Finding(HOLDS if worst <= 2 else FAILS, numbers))
        return all_of(findings)

    def ablation(rival: str) -> Callable[[Evidence], Finding]:
        pairs = (("svm", "svm_mnist"), ("counting_ones", "counting_ones-8-8"), ("networks", "networks-letter"))
        return lambda e: all_of(e.on(x, p).no_higher("bohb", rival) for x, p in pairs if rival in e.on(x, p).methods)

    yield Claim(
        "App. G",
        "BOHB is quite insensitive to η in a reasonable range (2 to 4, within a factor 2)",
        "hyperparameters",
        insensitive,
    )
    yield Claim(
        "App. B", "Keeping all evaluations beats a new model in every bracket (Wang et al.)", "counting_ones",
        ablation("bracket-models"),
    )  # fmt: skip
    yield Claim(
        "App. B", "A Gaussian process with the budget as one more input does not do better (Bertrand et al.)", "svm",
        ablation("gp-budget"), model_costs,
    )  # fmt: skip


def demanded() -> Iterator[Claim]:
    """What is asked of this implementation beyond the paper."""

    def everywhere(e: Evidence) -> Finding:
        findings = [
            (problem, e.on(x, problem).no_higher("bohb", "hyperband"))
            for x in ("counting_ones", "svm", "lcbench", "measured", "networks", "bnn", "cartpole")
            for problem in e.problems(x)
        ]
        decided = [(problem, f) for problem, f in findings if f.verdict != NOT_MEASURED]
        worse = [f.numbers for _, f in decided if f.verdict == FAILS]
        numbers = f"not above Hyperband on {len(decided) - len(worse)} of {len(decided)} problems"
        return Finding(all_of(f for _, f in decided).verdict, "; ".join([numbers, *worse]))

    def reference(e: Evidence) -> Finding:
        rows = e.bodies.get("compare", {}).get("comparison", [])
        if not rows:
            return Finding(NOT_MEASURED)
        worse = [row["problem"] for row in rows if row["verdict"] == "worse"]
        better = [row["problem"] for row in rows if row["verdict"] == "better"]
        runs = min(row["runs"] for row in rows)
        found = f"worse on {', '.join(worse) or 'none'}, better on {', '.join(better) or 'none'} of {len(rows)}"
        if runs < SEEDS:
            return Finding(UNDECIDED, f"{runs} seeds of the {SEEDS} that are asked for; {found}")
        return Finding(FAILS if worse else HOLDS, f"{runs} seeds; {found}")

    yield Claim("§5", "BOHB ends no worse than Hyperband on every problem", "figures", everywhere)
    yield Claim("–", "This implementation is no worse than HpBandSter's (see compare.md)", "compare", reference)


def all_claims() -> list[Claim]:
    """All of them, in the order of the paper."""
    parts = (counting_ones, svm, networks, trained, image_classification, parallel, appendices, demanded)
    return [claim for part in parts for claim in part()]
