"""Masks that lie in a file of their own, one for each frame of a video."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from masquerade.errors import BadInput
from masquerade.mechanism import Shape


def given_masks(path: str | None, shape: Shape, *, instead: str) -> Iterator[np.ndarray]:
    """(H, W) bool of each frame: where the file is not 0.

    Args:
        path: a .npy or .npz with one array (T, H, W) of bools or whole numbers.
        shape: (T, H, W, 3) of the video.
        instead: what may be done where there is no file.

    Raises:
        BadInput: if there is none, if it cannot be read, or if it does not fit the video.
    """
    return (mask != 0 for mask in given_labels(path, shape, name="masks", instead=instead))


def given_labels(
    path: str | None, shape: Shape, *, name: str, instead: str
) -> Iterator[np.ndarray]:
    """(H, W) whole numbers of each frame, as the file has them; errors as `given_masks`."""
    if path is None:
        raise BadInput(
            f"Expected {name}, got none; name a file with --{name.replace('_', '-')}, or {instead}."
        )
    found = read_array(Path(path), name)
    if found.shape != shape[:3]:
        raise BadInput(
            f"Expected {name} of shape {shape[:3]}, as the video has frames, height and width, "
            f"got {found.shape}."
        )
    return iter(found)


def read_array(path: Path, name: str) -> np.ndarray:
    """The one array of a file, of bools or whole numbers.

    Raises:
        BadInput: if there is none.
    """
    if not path.is_file():
        raise BadInput(f"Expected {name} at {path}; there is no such file.")
    try:
        arrays = _arrays(path)
    except Exception as error:  # NumPy and zipfile raise whatever garbage makes them stumble over
        raise BadInput(f"Expected a whole .npy or .npz at {path}; it cannot be read.") from error
    if len(arrays) != 1 or arrays[0].dtype.kind not in "bui":
        said = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise BadInput(f"Expected one array of bools or whole numbers in {path}, got {said}.")
    return np.asarray(arrays[0])


def _arrays(path: Path) -> list[np.ndarray]:
    """All arrays of a file; that of a .npy is read from disk when it is needed."""
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":
            return [np.load(path, mmap_mode="r", allow_pickle=False)]
        stream.seek(0)
        held = np.load(stream, allow_pickle=False)
        return [held[name] for name in held.files]
