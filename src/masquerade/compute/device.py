"""Where arrays live: the processor by default, a GPU inside ``with on("cuda")``.

Arrays are numpy's on the processor and torch's on a GPU. Operators, slices and methods that both
have are used as they are; what differs is here.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from masquerade._optional import Later

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = Later("torch", extra="train")

Array: TypeAlias = Any  # numpy.ndarray or torch.Tensor; what both have in common has no type
_CONSTANTS: OrderedDict[tuple[int, str], tuple[np.ndarray, Array]] = OrderedDict()
_MOST_CONSTANTS = 128
_CHOSEN: ContextVar[str] = ContextVar("device", default="cpu")


@contextlib.contextmanager
def on(device: str) -> Iterator[None]:
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
    token = _CHOSEN.set(device)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen() -> str:
    """The device's name."""
    return _CHOSEN.get()


def is_cpu() -> bool:
    """Whether arrays are numpy's."""
    return chosen() == "cpu"


def batch_frames(height: int, width: int) -> int:
    """How many frames are worked on together: few fit a processor's cache, many fill a GPU.

    Frames above 1080 lines are fewer at a time, so that memory does not grow with their size.
    """
    frames, sites = (16, 1 << 25) if is_cpu() else (256, 1 << 29)
    return max(1, min(frames, sites // (height * width)))


def send(array: Array) -> Array:
    """The array on the chosen device; where it is there already, itself."""
    if is_cpu() or not isinstance(array, np.ndarray):
        return array
    kind = getattr(torch, array.dtype.name)
    staged = torch.empty(array.shape, dtype=kind, pin_memory=True)
    np.copyto(staged.numpy(), array)
    return staged.to(chosen(), non_blocking=True)


def constant(array: np.ndarray) -> Array:
    """The same for an array that is never written to: it is sent once and kept for a while."""
    if is_cpu():
        return array
    key = (id(array), chosen())
    if key not in _CONSTANTS:
        _CONSTANTS[key] = (array, send(array))  # holding the array keeps its id its own
        while len(_CONSTANTS) > _MOST_CONSTANTS:
            _CONSTANTS.popitem(last=False)
    return _CONSTANTS[key][1]


def fetch(array: Array) -> np.ndarray:
    """The array as numpy's."""
    if isinstance(array, np.ndarray):
        return array
    staged = torch.empty(array.shape, dtype=array.dtype, pin_memory=True)
    staged.copy_(array)
    return np.asarray(staged.numpy())


def gather(arrays: Iterable[Array]) -> Array:
    """Arrays along a new first axis, on the chosen device."""
    several = list(arrays)
    if isinstance(several[0], np.ndarray):
        return send(np.stack(several))
    return torch.stack(several)


def cast(array: Array, kind: type[np.generic]) -> Array:
    """The array with another type of numbers."""
    if isinstance(array, np.ndarray):
        return array.astype(kind, copy=False)
    return array.to(getattr(torch, np.dtype(kind).name))


def zeros(shape: tuple[int, ...], kind: type[np.generic]) -> Array:
    """An array of zeros on the chosen device."""
    if is_cpu():
        return np.zeros(shape, kind)
    return torch.zeros(shape, dtype=getattr(torch, np.dtype(kind).name), device=chosen())


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


def tensordot(left: Array, right: Array, axes: tuple[int, int]) -> Array:
    """The sum of products over one axis of each; the axes of ``left`` come first."""
    if isinstance(left, np.ndarray):
        return np.tensordot(left, right, axes=axes)
    return torch.tensordot(left, right, dims=([axes[0]], [axes[1]]))


def counted(bins: Array, weights: Array, number: int) -> Array:
    """Sum of ``weights`` in each of ``number`` bins."""
    if isinstance(bins, np.ndarray):
        return np.bincount(bins, weights=weights, minlength=number)
    return torch.bincount(bins, weights=weights, minlength=number)


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
    """Rounded and clipped to 0..255, as uint8."""
    if isinstance(array, np.ndarray):
        np.rint(array, out=array)
        return np.clip(array, 0, 255, out=array).astype(np.uint8)
    return array.round().clamp(0, 255).to(torch.uint8)


@contextlib.contextmanager
def coarse() -> Iterator[None]:
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
