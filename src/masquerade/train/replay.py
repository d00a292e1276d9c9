"""Work that is done many times on a GPU, recorded once: replaying it waits for no host.

A network is hundreds of short kernels, and launching one takes longer than many of them run. What
is replayed are the kernels of a plain call. Nothing that is drawn may be among them: a replay would
draw the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from masquerade._torch import Tensor, torch
from masquerade.compute.capture import Recorder

Kind: TypeAlias = tuple[tuple[torch.Size, torch.dtype], ...]


class _Record(NamedTuple):
    replay: Callable[[], None]
    held: tuple[Tensor, ...]  # what it was recorded with; the next call's numbers are copied there


class Replayed:
    """A function of tensors that keeps nothing of them and writes to tensors that stay.

    On a processor, and where recording fails, it is called plainly. On a GPU the first call of each
    shape is plain, so that libraries set themselves up; the second is recorded. Records share their
    memory: one is replayed at a time.

    Args:
        work: called with tensors on one device.
        is_on: whether anything is recorded.
    """

    def __init__(self, work: Callable[..., None], *, is_on: bool = True) -> None:
        self._work, self._is_on = work, is_on
        self._records: dict[Kind, _Record | None] = {}
        self._recorder: Recorder | None = None

    def __call__(self, *given: Tensor) -> None:
        """Do the work."""
        kind = tuple((one.shape, one.dtype) for one in given)
        if not self._is_on or given[0].device.type != "cuda" or kind not in self._records:
            self._records.setdefault(kind, None)
            self._work(*given)
            return
        record = self._records[kind] or self._recorded(given)
        if record is None:
            self._work(*given)
            return
        self._records[kind] = record
        for held, one in zip(record.held, given, strict=True):
            held.copy_(one)
        record.replay()

    @property
    def count(self) -> int:
        """Shapes that were recorded."""
        return sum(record is not None for record in self._records.values())

    def _recorded(self, given: tuple[Tensor, ...]) -> _Record | None:
        """Record without doing; None, and never again, where something cannot be recorded."""
        held = tuple(one.clone() for one in given)
        self._recorder = self._recorder or Recorder(given[0].device)
        try:
            replay, _ = self._recorder.record(lambda: self._work(*held))
        except RuntimeError:  # it waits for the device, say; then every call is plain
            self._is_on = False
            return None
        return _Record(replay, held)
