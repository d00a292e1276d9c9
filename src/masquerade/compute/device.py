"""Where arrays live: the processor by default, a GPU inside ``with on("cuda")``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from masquerade._optional import require

Array = Any  # numpy.ndarray or torch.Tensor: what is used of them is the same in both
_CHOSEN: ContextVar[str] = ContextVar("device", default="cpu")


@contextlib.contextmanager
def on(device: str) -> Iterator[None]:
    """Compute on ``device`` ("cpu", "cuda", "cuda:1") inside the block.

    Raises:
        ValueError: if there is no such device.
        MissingExtra: if torch, which a GPU needs, is not installed.
    """
    if device != "cpu":
        kind = device.partition(":")[0]
        if kind != "cuda":
            raise ValueError(f"Expected cpu or cuda, got device={device!r}.")
        torch = require("torch", extra="train")
        if not torch.cuda.is_available():
            raise ValueError(
                f"Expected a GPU that torch can use, got device={device!r} on a machine without; "
                "leave out --device."
            )
        torch.empty(0, device=device)
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
    return _CHOSEN.get() == "cpu"


def send(array: np.ndarray) -> Array:
    """The array on the chosen device; on the processor, itself."""
    if is_cpu():
        return array
    torch = require("torch", extra="train")
    return torch.from_numpy(np.ascontiguousarray(array)).to(_CHOSEN.get(), non_blocking=True)


def fetch(array: Array) -> np.ndarray:
    """The array as numpy's."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu().numpy())


def cast(array: Array, kind: type[np.generic]) -> Array:
    """The array with another type of numbers."""
    if isinstance(array, np.ndarray):
        return array.astype(kind, copy=False)
    torch = require("torch", extra="train")
    return array.to(getattr(torch, np.dtype(kind).name))


def stack(arrays: list[Array]) -> Array:
    """The arrays along a new last axis."""
    if isinstance(arrays[0], np.ndarray):
        return np.stack(arrays, axis=-1)
    return require("torch", extra="train").stack(arrays, dim=-1)


def solve(matrix: Array, right: Array) -> Array:
    """The solution of a symmetric positive definite system."""
    if isinstance(matrix, np.ndarray):
        return np.linalg.solve(matrix, right)
    torch = require("torch", extra="train")
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))


def to_bytes(array: Array) -> np.ndarray:
    """Rounded and clipped to 0..255, as numpy's uint8."""
    if isinstance(array, np.ndarray):
        return np.clip(np.rint(array), 0, 255).astype(np.uint8)
    torch = require("torch", extra="train")
    return fetch(array.round().clamp(0, 255).to(torch.uint8))
