"""Masks that lie in a file of their own, one for each frame of a video."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from masquerade.errors import BadInput
from masquerade.files.array_on_disk import array_names, read_array
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
    return iter(read_masks(Path(path), name, (shape[:3],)))


def read_masks(path: Path, name: str, shapes: Sequence[Shape]) -> np.ndarray:
    """The one array of a file, of bools or whole numbers, which stays on disk.

    Args:
        path: of the file.
        name: of what it holds, in words.
        shapes: that fit; what the file's header says is compared before anything is unpacked.

    Raises:
        BadInput: if there is none.
    """
    if not path.is_file():
        raise BadInput(f"Expected {name} at {path}; there is no such file.")
    names = array_names(path)
    if len(names) > 1:
        raise BadInput(
            f"Expected one array of bools or whole numbers in {path}, got {', '.join(names)}; save "
            "the one that counts by itself."
        )

    def check(shape: Shape, dtype: np.dtype[np.generic]) -> None:
        if dtype.kind not in "bui":
            raise BadInput(
                f"Expected one array of bools or whole numbers in {path}, got {dtype} {shape}."
            )
        if shape not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise BadInput(
                f"Expected {name} of shape {wanted}, got {shape} in {path}; give frames, height "
                "and width of the video as it is read."
            )

    return read_array(path, check)
