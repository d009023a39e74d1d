"""Write the pages of docs/results again from the stored results; nothing is run.

    python -m benchmarks.pages                     # all pages whose result files hold everything
    python -m benchmarks.pages better demo         # some

The pages of priors, of the networks' surrogates, of replays and of the soak have no such result file: the scripts that
measure write them, or people do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import confirm, costs, deadlines, demo, extrapolate, optuna_compare, results
from benchmarks.better import pages, sklearn_search
from benchmarks.experiment import Experiment
from benchmarks.paper import bnn, cartpole, compare, counting_ones, hyperparameters, lcbench, measured, speedup, svm
from benchmarks.paper.claims import page as claims
from benchmarks.paper.claims.evidence import Evidence
from benchmarks.paper.networks import experiment as networks
from benchmarks.report import RESULTS
from benchmarks.several import __main__ as several
from benchmarks.speed import gp_speed

EXPERIMENTS: tuple[Experiment, ...] = tuple(
    module.EXPERIMENT for module in (bnn, cartpole, counting_ones, lcbench, measured, networks, svm)
)
STUDY = ("better", *(f"better_{part}" for part in pages.PARTS if part != "main"))
PAGES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    **{experiment.name: partial(results.page, experiment) for experiment in EXPERIMENTS},
    **{name: partial(pages.page, name) for name in STUDY},
    **{name: partial(speedup.page, name) for name in ("parallel", "parallel_counting_ones")},
    "compare": compare.page,
    "confirm": confirm.page,
    "costs": lambda body: costs.page(body["studies"], body["source"]),
    "deadlines": deadlines.page_of,
    "demo": demo.page,
    "extrapolate": extrapolate.page,
    "gp_speed": gp_speed.page,
    "hyperparameters": lambda body: results.page(hyperparameters.EXPERIMENT, body, hyperparameters.sentences(body)),
    "optuna": optuna_compare.page,
    "several": several.page,
    "sklearn_search": sklearn_search.page,
}


def made(name: str, folder: Path = RESULTS) -> str:
    """Return a page from the results in a folder."""
    if name == "claims":
        return claims.page(Evidence(folder))
    return PAGES[name](json.loads((folder / f"{name}.json").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (*PAGES, "claims")
    parser.add_argument("names", nargs="*", choices=(*names, []), metavar="NAME", help=f"of {', '.join(names)}")
    for name in parser.parse_args().names or names:
        (RESULTS / f"{name}.md").write_text(made(name))
        print(f"docs/results/{name}.md")


if __name__ == "__main__":
    main()
