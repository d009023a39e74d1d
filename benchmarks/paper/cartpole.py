"""Proximal policy optimisation on the cart and pole (§5.4 and Appendix K): episodes until the agent has converged.

    python -m benchmarks.paper.cartpole --runs 5 --jobs 2
    python -m benchmarks.paper.cartpole --methods bohb,hyperband --evaluations 16

Every evaluation trains agents. Finished ones are kept under .cache/benchmarks/evaluations, with the episodes of each
trial and the CPU seconds. The optimum is unknown, so what the tables call regret is the mean number of episodes that
the incumbent was seen to need, at most 3000. As it is very noisy, the incumbent is the best on the largest budget so
far. A run of the paper, 16 brackets, is about 46 full evaluations. Writes cartpole.json, .csv, .md and .png.
"""

from __future__ import annotations

from benchmarks import drawing, evaluations
from benchmarks.experiment import chosen, guarded, parser_of
from benchmarks.measurement import Experiment, measure
from benchmarks.problems.cartpole import CartPole
from benchmarks.results import AXES, final_table, panel, publish

EXPERIMENT = Experiment(
    name="cartpole",
    title="PPO on the cart and pole: episodes to convergence",
    problems=("cartpole",),
    methods=("bohb", "hyperband", "random", "tpe"),
    full_evaluations=46,
    runs=10,
    protocol="largest",
    quantity="episodes to convergence",
    smoke=(("cartpole",), ("hyperband",)),
    smoke_evaluations=0.25,
)


def cartpole_problem() -> CartPole:
    """The problem, as `problem_of` asks for it."""
    return CartPole(evaluations.KEPT)


def main() -> None:
    args = parser_of(EXPERIMENT, __doc__).parse_args()

    def act() -> None:
        body = publish(measure(chosen(EXPERIMENT, args), args.jobs, args.cache), args.out)
        panels = [panel(problem, entry) for problem, entry in body["problems"].items()]
        if panels:
            drawing.draw(panels, args.out / "cartpole.png", AXES["spent"], "episodes to convergence")
        print(final_table(body))

    guarded(act)


if __name__ == "__main__":
    main()
