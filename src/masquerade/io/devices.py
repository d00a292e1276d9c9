"""Where arrays live: the processor by default, a GPU inside ``with on("cuda")``.

Arrays are numpy's on the processor and torch's on a GPU. Operators, slices and methods that both
have are used as they are; what differs is here.

Capture work on a GPU as a graph: one at a time, and on a stream of its own.

torch has one stream for that in the whole process, on whichever device came first. Work of another
device would run past the graph, which then holds nothing, and a replay would give old results.

One thread multiplies matrices while other threads read and write: two would wait and spin.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from masquerade._optional import lazy_module
from masquerade.noise import Noise

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = lazy_module("torch", extra="train")


Array: TypeAlias = Any  # numpy.ndarray or torch.Tensor; what both have in common has no type
_CONSTANTS: OrderedDict[tuple[int, str], tuple[np.ndarray, Array]] = OrderedDict()
_MAX_CONSTANTS = 128
_BINS_PER_COUNT = 512  # of bins that are counted at a time
_DEVICE_NAME: ContextVar[str] = ContextVar("device", default="cpu")
_HELD_CONSTANTS: ContextVar[list[Array] | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def use_device(device: str) -> Iterator[None]:
    """Compute on ``device`` ("cpu", "cuda", "cuda:1") inside the block.

    Raises:
        ValueError: if there is no such device.
        MissingExtra: if torch, which a GPU needs, is not installed.
    """
    if device != "cpu":
        if device.partition(":")[0] != "cuda":
            raise ValueError(f"Expected cpu or cuda, got device={device!r}.")
        if not torch.cuda.is_available():
            raise ValueError(
                f"Expected a GPU that torch can use, got device={device!r} on a machine without; "
                "leave out --device."
            )
    token = _DEVICE_NAME.set(device)
    try:
        yield
    finally:
        _DEVICE_NAME.reset(token)


def device_name() -> str:
    """The device's name."""
    return _DEVICE_NAME.get()


def is_cpu() -> bool:
    """Whether arrays are numpy's."""
    return device_name() == "cpu"


def batch_frames(height: int, width: int) -> int:
    """How many frames are worked on together: few fit a processor's cache, many fill a GPU.

    Frames above 1080 lines are fewer at a time, so that memory does not grow with their size.
    """
    frames, sites = (16, 1 << 25) if is_cpu() else (256, 1 << 29)
    return max(1, min(frames, sites // (height * width)))


def send_array(array: Array) -> Array:
    """The array on the chosen device; where it is there already, itself."""
    if is_cpu() or not isinstance(array, np.ndarray):
        return array
    staged = _make_pinned(array.shape, getattr(torch, array.dtype.name))
    np.copyto(staged.numpy(), array)
    return staged.to(device_name(), non_blocking=True)


def send_constant(array: np.ndarray) -> Array:
    """The same for an array that is never written to: it is sent once and kept for a while."""
    if is_cpu():
        return array
    key = (id(array), device_name())
    kept = _CONSTANTS.get(key)
    if kept is None:
        kept = _CONSTANTS[key] = (
            array,
            send_array(array),
        )  # holding the array keeps its id its own
        while len(_CONSTANTS) > _MAX_CONSTANTS:
            _CONSTANTS.popitem(last=False)
    held = _HELD_CONSTANTS.get()
    if held is not None:
        held.append(kept[1])
    return kept[1]


@contextlib.contextmanager
def hold_constants() -> Iterator[list[Array]]:
    """Collect the constants used inside, so that they can be kept; nothing else is moved there.

    For work that is captured (`masquerade.io.devices`): an array that went to the device or
    came from it inside would be the same at every replay.
    """
    held: list[Array] = []
    token = _HELD_CONSTANTS.set(held)
    try:
        yield held
    finally:
        _HELD_CONSTANTS.reset(token)


def fetch_array(array: Array) -> np.ndarray:
    """The array as numpy's."""
    if isinstance(array, np.ndarray):
        return array
    staged = _make_pinned(array.shape, array.dtype)
    staged.copy_(array)
    return np.asarray(staged.numpy())


def _make_pinned(shape: tuple[int, ...], kind: torch.dtype) -> Array:
    """Memory that a GPU reads and writes by itself; torch keeps it and gives it out again."""
    if _HELD_CONSTANTS.get() is not None:
        raise RuntimeError("Expected constants only: nothing else can be moved while capturing.")
    is_gpu = device_name().startswith("cuda")
    return torch.empty(shape, dtype=kind, pin_memory=is_gpu)


def gather(arrays: Iterable[Array]) -> Array:
    """Arrays along a new first axis, on the chosen device."""
    several = list(arrays)
    if not isinstance(several[0], np.ndarray):
        return torch.stack(several) if _find_whole(several) is None else _find_whole(several)
    if is_cpu():
        return np.stack(several)
    kind = getattr(torch, several[0].dtype.name)
    staged = _make_pinned((len(several), *several[0].shape), kind)
    np.stack(several, out=staged.numpy())
    return staged.to(device_name(), non_blocking=True)


def _find_whole(parts: list[Array]) -> Array | None:
    """The tensor that the parts are, in order, if they are all of one."""
    whole = parts[0]._base
    if whole is None or tuple(whole.shape) != (len(parts), *parts[0].shape):
        return None
    step = whole.stride(0) * whole.element_size()
    start = whole.data_ptr()
    is_it = all(
        part._base is whole
        and part.data_ptr() == start + i * step
        and part.stride() == whole.stride()[1:]
        and part.dtype == whole.dtype
        for i, part in enumerate(parts)
    )
    return whole if is_it else None


def cast(array: Array, kind: type[np.generic]) -> Array:
    """The array with another type of numbers."""
    if isinstance(array, np.ndarray):
        return array.astype(kind, copy=False)
    return array.to(getattr(torch, np.dtype(kind).name))


def zeros(shape: tuple[int, ...], kind: type[np.generic]) -> Array:
    """An array of zeros on the chosen device."""
    if is_cpu():
        return np.zeros(shape, kind)
    return torch.zeros(shape, dtype=getattr(torch, np.dtype(kind).name), device=device_name())


def empty(shape: tuple[int, ...], kind: type[np.generic]) -> Array:
    """An array on the chosen device whose numbers are still to be written."""
    if is_cpu():
        return np.empty(shape, kind)
    return torch.empty(shape, dtype=getattr(torch, np.dtype(kind).name), device=device_name())


def flip_last_axis(array: Array) -> Array:
    """The same from the end of its last axis to the beginning."""
    return array[..., ::-1] if isinstance(array, np.ndarray) else array.flip(-1)


def block_sums(array: Array, axis: int, step: int, kind: type[np.integer]) -> Array:
    """Sums of every ``step`` neighbours along an axis of a tensor; the last may be of fewer."""
    name = getattr(torch, np.dtype(kind).name)
    blocks, rest = divmod(array.shape[axis], step)
    whole = array.narrow(axis, 0, blocks * step).unflatten(axis, (blocks, step))
    sums = whole.sum(axis + 1, dtype=name)
    if not rest:
        return sums
    last = array.narrow(axis, blocks * step, rest).sum(axis, keepdim=True, dtype=name)
    return torch.cat([sums, last], axis)


def concat(arrays: list[Array]) -> Array:
    """The arrays one after the other, along the first axis."""
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return torch.cat(arrays)


def stack(arrays: list[Array]) -> Array:
    """The arrays along a new last axis."""
    if isinstance(arrays[0], np.ndarray):
        return np.stack(arrays, axis=-1)
    return torch.stack(arrays, dim=-1)


def sum_bins(bins: Array, weights: Array, number: int) -> Array:
    """Sum of ``weights`` in each of ``number`` bins."""
    if isinstance(bins, np.ndarray):
        return np.bincount(bins, weights=weights, minlength=number)
    # torch's own count waits for the host. Neighbours add to different copies of the bins, or
    # they would wait for each other.
    place = (
        torch.arange(len(bins), device=bins.device)
        .remainder_(_BINS_PER_COUNT)
        .mul_(number)
        .add_(bins)
    )
    sums = torch.zeros(_BINS_PER_COUNT * number, dtype=weights.dtype, device=bins.device)
    return sums.scatter_add_(0, place, weights).view(_BINS_PER_COUNT, number).sum(0)


def clamp(array: Array, low: float, high: float) -> Array:
    """Clipped to a range."""
    if isinstance(array, np.ndarray):
        return np.clip(array, low, high)
    return array.clamp(low, high)


def cholesky(matrix: Array) -> Array:
    """The lower factor of a symmetric positive definite matrix."""
    if isinstance(matrix, np.ndarray):
        return np.linalg.cholesky(matrix)
    return torch.linalg.cholesky(matrix)


def solve(factor: Array, right: Array) -> Array:
    """The solution of the system with that lower factor."""
    if isinstance(factor, np.ndarray):
        return np.linalg.solve(factor.T, np.linalg.solve(factor, right))
    return torch.cholesky_solve(right, factor)


def to_bytes(array: Array) -> Array:
    """Rounded and clipped to 0..255, as uint8; the array itself is used up."""
    if isinstance(array, np.ndarray):
        np.rint(array, out=array)
        return np.clip(array, 0, 255, out=array).astype(np.uint8)
    return array.round_().clamp_(0, 255).to(torch.uint8)


@contextlib.contextmanager
def allow_coarse_products() -> Iterator[None]:
    """Let a GPU multiply float32 matrices in TF32: for post-processing, never for private data."""
    if is_cpu():
        yield
        return
    setting = torch.backends.cuda.matmul
    before, setting.allow_tf32 = setting.allow_tf32, True
    try:
        yield
    finally:
        setting.allow_tf32 = before


Made = TypeVar("Made")
_ONE_THREAD_LOCK = threading.Lock()


class GraphRecorder:
    """Records work of one device; the memory of all its records is shared.

    Args:
        where: the device of every tensor that the work uses.
    """

    def __init__(self, where: Any) -> None:
        self._where, self._side, self._pool = where, torch.cuda.Stream(where), None

    def record_graph(self, work: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """How to do the work again, and where its results will stand; it is not done yet.

        Raises:
            RuntimeError: if some of it cannot be captured, or none of it was.
        """
        graph: Any = torch.cuda.CUDAGraph()
        with (
            _ONE_THREAD_LOCK,
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


Work: TypeAlias = Callable[[Array, Noise], list[Array]]

_LOCK = threading.Lock()
_BLAS_LIMITS: list[Any] = []  # the limit, once for everyone who wants it: it is the whole process's


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """NumPy's products use one thread inside; as many as before when the last one has left."""
    with _LOCK:
        _BLAS_LIMITS.append(
            _BLAS_LIMITS[0] if _BLAS_LIMITS else threadpool_limits(1, user_api="blas")
        )
    try:
        yield
    finally:
        with _LOCK:
            limit = _BLAS_LIMITS.pop()
            if not _BLAS_LIMITS:
                limit.restore_original_limits()
