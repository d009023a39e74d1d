"""BOHB for OptunaHub: the sampler and the pruner of the package `bohb`."""

from bohb.integrations.optuna import BOHBPruner, BOHBSampler

__all__ = ["BOHBPruner", "BOHBSampler"]
