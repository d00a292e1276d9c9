"""Several calls at a time, in processes of one thread each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import joblib

T = TypeVar("T")


def processes(jobs: int) -> int:
    """As many as were asked for; 0 asks for one a core.

    Example:
        >>> processes(3), processes(0) >= 1
        (3, True)
    """
    return jobs or len(os.sched_getaffinity(0))


def together(
    calls: Sequence[tuple[Callable[..., T], tuple[Any, ...]]], *, jobs: int
) -> Iterator[T]:
    """What each call gives, in order; small products that threads share take far longer.

    Args:
        calls: a function and its arguments.
        jobs: processes; 1 for none but this one.

    Example:
        >>> list(together([(abs, (-1,)), (abs, (2,))], jobs=1))
        [1, 2]
    """
    if jobs == 1:
        yield from (call(*given) for call, given in calls)
        return
    with warnings.catch_warnings(), joblib.parallel_config("loky", inner_max_num_threads=1):
        warnings.filterwarnings("ignore", message="A worker stopped")  # joblib starts another
        work = (joblib.delayed(call)(*given) for call, given in calls)
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator")(work)
