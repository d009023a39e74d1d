"""Limits linear algebra to one thread.

The Gaussian process factorises matrices of a few hundred rows. BLAS libraries use all cores even for these; while
trials keep the cores busy, the threads wait for each other, and a proposal that needs milliseconds takes seconds.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from bohb.core.settings import Settings

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread(settings: Settings) -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread; it does nothing if the settings need no linear algebra."""
    return _controller().limit(limits=1, user_api="blas") if settings.explains == "process" else nullcontext()


@functools.cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    import bohb.core.samplers.gaussian  # noqa: F401 - the controller only finds libraries that are loaded

    return ThreadpoolController()
