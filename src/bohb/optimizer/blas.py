"""One thread for linear algebra, where matrices are small.

The Gaussian process factorises matrices of a few hundred rows. A BLAS library spreads even these over all cores; while
trials keep the cores busy, its threads wait for each other, and a proposal of milliseconds takes seconds.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from bohb.core.settings import Settings

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread(settings: Settings) -> AbstractContextManager[object]:
    """What limits BLAS to one thread while a study with these settings decides; nothing if it needs none."""
    return nullcontext() if settings.model == "density" else _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    import bohb.core.gp.sampler  # noqa: F401 - only libraries that are loaded are found

    return ThreadpoolController()
