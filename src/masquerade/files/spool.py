"""Things that would fill the memory wait on disk, in a file without a name that ends with us."""

from __future__ import annotations

import tempfile
import threading
import zlib
from types import TracebackType

import numpy as np

_FAST = 1  # of zlib's levels


class Spool:
    """Pieces of bytes in order; only where each begins is in memory.

    The file has no name from the first moment, so that nobody else can open it, and however the
    process ends nothing is left. It stands where Python's ``tempfile`` puts files: ``TMPDIR``
    decides, and a disk is better than a folder in memory. Several threads may add and read.

    Args:
        is_packed: whether pieces are compressed.

    Example:
        >>> with Spool(is_packed=True) as spool:
        ...     (spool.add(b"one"), spool.add(b"two")), spool[0], len(spool)
        ((0, 1), b'one', 2)
    """

    def __init__(self, *, is_packed: bool = False) -> None:
        self._file = tempfile.TemporaryFile()
        self._is_packed, self._ends = is_packed, [0]
        self._is_moved = threading.Lock()  # where the file is read or written next

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, piece: bytes) -> int:
        """Put a piece at the end; its number."""
        held = zlib.compress(piece, _FAST) if self._is_packed else piece
        with self._is_moved:
            self._file.seek(self._ends[-1])
            self._file.write(held)
            self._ends.append(self._ends[-1] + len(held))
            return len(self) - 1

    def __getitem__(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(f"Expected a number below {len(self)}, got {number}.")
        with self._is_moved:
            self._file.seek(self._ends[number])
            held = self._file.read(self._ends[number + 1] - self._ends[number])
        return zlib.decompress(held) if self._is_packed else held

    def close(self) -> None:
        """Forget all of it."""
        self._file.close()


class MaskSpool:
    """Masks (H, W) bool of one size, packed: a minute of 720p takes a few megabytes of disk."""

    def __init__(self, height: int, width: int) -> None:
        self._size, self._held = (height, width), Spool(is_packed=True)
        self._where: list[int] = []  # the piece of each mask; one that was changed has a new one

    def __len__(self) -> int:
        return len(self._where)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self._size

    def add(self, mask: np.ndarray) -> None:
        """The mask of the next frame."""
        self._where.append(self._written(mask))

    def put(self, number: int, mask: np.ndarray) -> None:
        """Another mask for a frame that has one."""
        self._where[number] = self._written(mask)

    def _written(self, mask: np.ndarray) -> int:
        if mask.shape != self._size or mask.dtype != bool:
            raise ValueError(
                f"Expected a mask of {self._size} bool, got {mask.shape} {mask.dtype}."
            )
        return self._held.add(np.packbits(mask, axis=1).tobytes())

    def packed(self, number: int) -> np.ndarray:
        """(H, W / 8) uint8: the bits of a mask, packed by lines."""
        bits = np.frombuffer(self._held[self._where[number]], np.uint8)
        return bits.reshape(self._size[0], -1)

    def __getitem__(self, number: int) -> np.ndarray:
        bits = np.unpackbits(self.packed(number), axis=1, count=self._size[1])
        return bits.astype(bool)

    def close(self) -> None:
        """Forget all of them."""
        self._held.close()
