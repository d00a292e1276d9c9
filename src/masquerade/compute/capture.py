"""Capture work on a GPU as a graph: one at a time, and on a stream of its own.

torch has one stream for that in the whole process, on whichever device came first. Work of another
device would run past the graph, which then holds nothing, and a replay would give old results.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from masquerade._optional import Later

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = Later("torch", extra="train")

Made = TypeVar("Made")
_ONE = threading.Lock()


class Recorder:
    """Records work of one device; the memory of all its records is shared.

    Args:
        where: the device of every tensor that the work uses.
    """

    def __init__(self, where: Any) -> None:
        self._where, self._side, self._pool = where, torch.cuda.Stream(where), None

    def record(self, work: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """How to do the work again, and where its results will stand; it is not done yet.

        Raises:
            RuntimeError: if some of it cannot be captured, or none of it was.
        """
        graph: Any = torch.cuda.CUDAGraph()
        with (
            _ONE,
            torch.cuda.device(self._where),
            torch.cuda.stream(self._side),  # left as it was, also when beginning fails
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("error", message=".*CUDA Graph is empty")
            try:
                with torch.cuda.graph(
                    graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"
                ):
                    made = work()
            except UserWarning as empty:
                raise RuntimeError(str(empty)) from empty
        self._pool = graph.pool()
        return graph.replay, made
