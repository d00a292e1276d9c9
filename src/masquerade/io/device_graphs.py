"""Work of one shape on a GPU, captured as a graph and replayed: small steps wait for no host.

The first calls compute as ever, the next one captures, and from then on it is replayed. A graph
reads its input from memory that each call fills, keeps the constants that it uses, and hands out
copies. Noise is no part of it: what the work asks for is drawn afresh before every replay
(`masquerade.noise.source`). Where capturing is impossible, work is computed as ever.

Noise where arrays are: on the processor, or on the GPU that was chosen.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from masquerade._optional import lazy_module
from masquerade.io.devices import Array, GraphRecorder, Work, device_name, hold_constants, is_cpu
from masquerade.noise import Noise, find_grid
from masquerade.noise.source import PresampledNoise

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = lazy_module("torch", extra="train")

_WARM = 2  # calls before one is captured: most videos are too short for it to pay
_MOST = 8  # that are kept in a thread
_THREAD = threading.local()  # two threads must not share the memory of a graph


def replay_work(key: Hashable, work: Work, given: Array, noise: Noise) -> list[Array]:
    """What ``work(given, noise)`` returns.

    Args:
        key: names the work; whatever decides what it does, but for the numbers in ``given``, is in
            the key.
        work: to be done; it must not change ``given``.
        given: an array on the chosen device.
        noise: that the work may draw from.
    """
    if not _can_capture():
        return work(given, noise)
    own = (key, device_name(), tuple(given.shape), given.dtype)
    known = _known()
    repeated = known.setdefault(own, _Repeated(work))
    known.move_to_end(own)
    while len(known) > _MOST:
        known.popitem(last=False)
    return repeated(given, noise)


def is_captured(key: Hashable) -> bool:
    """Whether work of that key is replayed by now, in this thread."""
    return any(own[0] == key and repeated.graph is not None for own, repeated in _known().items())


class _Repeated:
    """Work, and the graph of it once there is one."""

    def __init__(self, work: Work) -> None:
        self._work, self._calls = work, 0
        self.graph: _CapturedGraph | None = None

    def __call__(self, given: Array, noise: Noise) -> list[Array]:
        self._calls += 1
        if self._calls == _WARM + 1:
            self.graph = _capture_work(self._work, given)
        return self._work(given, noise) if self.graph is None else self.graph(given, noise)


class _CapturedGraph:
    """Captured work with the memory that it reads and writes."""

    def __init__(self, work: Work, given: Array) -> None:
        self._given, self._noise = given.clone(), PresampledNoise()
        work(self._given, self._noise)  # sets aside what it asks for; nobody sees the result
        self._noise.rewind_slots()
        with hold_constants() as self._constants:
            self._replay, self._made = _record_work(lambda: work(self._given, self._noise))

    def __call__(self, given: Array, noise: Noise) -> list[Array]:
        self._given.copy_(given)
        self._noise.fill_slots(noise)
        self._replay()
        return [made.clone() for made in self._made]


def _capture_work(work: Work, given: Array) -> _CapturedGraph | None:
    try:
        return _CapturedGraph(work, given)
    except RuntimeError:  # torch's, of steps that cannot be captured or of memory, and our own
        return None


def _record_work(work: Callable[[], list[Array]]) -> tuple[Callable[[], None], list[Array]]:
    """How to do the work again, and where its results will stand; it is not done yet."""
    return GraphRecorder(device_name()).record_graph(work)


def _can_capture() -> bool:
    return device_name().startswith("cuda")


def _known() -> OrderedDict[tuple[Hashable, ...], _Repeated]:
    if not hasattr(_THREAD, "known"):
        _THREAD.known = OrderedDict()
    known: OrderedDict[tuple[Hashable, ...], _Repeated] = _THREAD.known
    return known


def sample_device_gaussian(
    noise: Noise, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
) -> Array:
    """Noise of ``noise`` on the chosen device, float64; it is the same on all."""
    if is_cpu():
        return noise.sample_gaussian(sigma, shape, grid=grid)
    step = find_grid(sigma) if grid is None else grid
    return noise.sample_gaussian_on(device_name(), sigma, shape, grid=step).to(torch.float64) * step
