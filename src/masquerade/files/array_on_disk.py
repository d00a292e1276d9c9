"""One array of a .npy or .npz file: judged by its header, then read from disk piece by piece.

A few kB of a .npz can unpack to more than any memory holds. So what its header says is compared
with what is expected before a byte is unpacked; and it is unpacked into a file without a name, no
further than the header says, and mapped.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from masquerade.errors import BadInput

Check = Callable[[tuple[int, ...], "np.dtype[np.generic]"], None]

_PIECE = 1 << 20  # bytes that are unpacked at a time


def array_names(path: Path) -> tuple[str, ...]:
    """The names of the arrays in a .npz; those of a .npy are none.

    Raises:
        BadInput: if the file cannot be read, or two have one name.
    """
    if not _is_archive(path):
        return ()
    try:
        with zipfile.ZipFile(path) as archive:
            names = tuple(info.filename.removesuffix(".npy") for info in archive.infolist())
    except Exception as error:
        raise _unreadable(path) from error
    if len(set(names)) != len(names):
        raise BadInput(f"Expected every array in {path} to have a name of its own.")
    return names


def read_array(path: Path, check: Check, *, name: str | None = None) -> np.ndarray:
    """The array of a .npy, or one of a .npz, which stays on disk until it is looked at.

    Args:
        path: the file; its content decides which of the two it is.
        check: raises if shape and type, which the header says, are not those expected.
        name: of the array in a .npz; the first if None.

    Raises:
        BadInput: if the file cannot be read.
    """
    try:
        if _is_archive(path):
            with zipfile.ZipFile(path) as archive:
                info = archive.infolist()[0] if name is None else archive.getinfo(f"{name}.npy")
                with archive.open(info) as member:
                    return _unpacked(member, check)
        with path.open("rb") as stream:
            shape, _, dtype = header(stream)
        check(shape, dtype)
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except BadInput:
        raise
    except Exception as error:  # NumPy and zipfile raise whatever garbage makes them stumble over
        raise _unreadable(path) from error


def _is_archive(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"PK"


def header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether the first axis is the fastest, and type.

    Only version 1.0 is taken, which NumPy writes for all numbers: the header of a later one may
    be 4 GB long, and NumPy would read all of it.

    Raises:
        ValueError: if it is no header of numbers.
    """
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("no header of version 1.0")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("no array of numbers")
    return shape, is_fortran, dtype


def _unpacked(member: IO[bytes], check: Check) -> np.ndarray:
    shape, is_fortran, dtype = header(member)
    check(shape, dtype)
    left = math.prod(shape) * dtype.itemsize
    with tempfile.TemporaryFile() as held:  # the map keeps it
        while left:
            piece = member.read(min(left, _PIECE))
            if not piece:
                raise ValueError("the array breaks off")
            held.write(piece)
            left -= len(piece)
        if member.read(1):  # at the end its checksum is compared
            raise ValueError("more than the header says")
        held.flush()
        return np.memmap(held, dtype, "r", shape=shape, order="F" if is_fortran else "C")


def _unreadable(path: Path) -> BadInput:
    return BadInput(
        f"Expected a whole {path.suffix} file at {path}; it cannot be read: save it again."
    )
