"""Contract suites for journals and executors, as pytest classes to subclass."""

import pytest

# before they are imported, so that a failing assertion shows its values
pytest.register_assert_rewrite("bohb.testing.executors", "bohb.testing.journals")

from bohb.testing.executors import ElasticContract, ExecutorContract, Place  # noqa: E402
from bohb.testing.journals import (  # noqa: E402
    DurableJournalContract,
    JournalContract,
    SharedJournalContract,
    example_events,
    numbered_events,
)

__all__ = [
    "DurableJournalContract",
    "ElasticContract",
    "ExecutorContract",
    "JournalContract",
    "Place",
    "SharedJournalContract",
    "example_events",
    "numbered_events",
]
