"""Smaller budgets train on parts of the rows that are fair, fixed and contained in each other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra sklearn")
from bohb.integrations.sklearn_data import Folds

LABELS = np.repeat([0, 1, 2], [60, 30, 10])
FOLDS = Folds([(np.arange(100), np.arange(5)), (np.arange(20, 100), np.arange(20))])


@pytest.mark.parametrize("labels", [None, LABELS])
def test_a_larger_part_contains_a_smaller_one(labels: np.ndarray | None) -> None:
    parts = [FOLDS.subset(7, fraction, labels).folds for fraction in (0.1, 0.3, 0.9, 1.0)]
    for smaller, larger in pairwise(parts):
        for (small, _), (large, _) in zip(smaller, larger, strict=True):
            assert set(small) < set(large)


def test_a_part_has_its_share_of_each_folds_rows_in_their_order_and_all_test_rows() -> None:
    for (train, test), (part, same) in zip(FOLDS.folds, FOLDS.subset(7, 0.25).folds, strict=True):
        assert len(part) == len(train) // 4
        assert list(part) == sorted(set(part))
        assert set(part) < set(train)
        assert list(same) == list(test)


def test_classes_keep_their_proportions() -> None:
    (part, _), _ = FOLDS.subset(7, 0.3, LABELS).folds
    assert list(np.bincount(LABELS[part])) == [18, 9, 3]


def test_a_part_is_never_empty_and_follows_from_the_seed() -> None:
    assert [len(train) for train, _ in FOLDS.subset(7, 1e-9).folds] == [1, 1]
    first, again, other = (FOLDS.subset(seed, 0.5).folds[0][0] for seed in (7, 7, 8))
    assert list(first) == list(again) != list(other)
