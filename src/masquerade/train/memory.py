"""Where the frozen trunk's output for private recordings is kept, which is as private as they are.

It is held in memory up to a limit, beyond it in a folder that only its owner can read and that is
removed at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from masquerade import _check
from masquerade._torch import torch
from masquerade.train.loop import Precision


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Where the trunk's output is kept.

    Args:
        most_mb: in memory; more goes to disk.
        folder: on disk; the system's folder for temporary files if None.
        is_kept: whether the file stays. It is as private as the recordings.
        device: where the trunk runs and the rows lie.
        precision: in which the trunk runs; bfloat16 on a GPU alone.
    """

    most_mb: int = 4096
    folder: Path | None = None
    is_kept: bool = False
    device: str = "cpu"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        _check.not_negative(most_mb=self.most_mb)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(_check.unknown("device", self.device, ("cpu", "cuda")))
        if self.precision not in get_args(Precision):
            raise ValueError(_check.unknown("precision", self.precision, get_args(Precision)))
        if self.precision == "bfloat16" and self.device != "cuda":
            raise ValueError("Expected device=cuda for precision=bfloat16; use precision=float32.")


class Sink:
    """Collects rows in memory, or in a private file where they are too many.

    Args:
        rows: that will be added in all.
        memory: where.
    """

    def __init__(self, rows: int, memory: Memory) -> None:
        self._rows, self._memory, self._next = rows, memory, 0
        self._held: Any = None
        self._folder: Path | None = None

    def add(self, some: Any) -> None:
        """The next rows."""
        if self._held is None:
            self._held = self._room(some)
        self._held[self._next : self._next + len(some)] = some.to(self._held.device)
        self._next += len(some)

    def tensor(self) -> Any:
        """All of them."""
        return self._held

    def close(self) -> None:
        """Let go of them, and remove the file."""
        self._held = None
        if self._folder is not None and not self._memory.is_kept:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _room(self, some: Any) -> Any:
        shape = (self._rows, *some.shape[1:])
        size_mb = some[0].numel() * 4 * self._rows / 2**20
        if size_mb <= self._memory.most_mb:
            return torch.empty(shape, device=self._memory.device)
        self._folder = Path(tempfile.mkdtemp(prefix="masquerade-", dir=self._memory.folder))
        file = self._folder / "private-activations.npy"
        held = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        return torch.from_numpy(held)
