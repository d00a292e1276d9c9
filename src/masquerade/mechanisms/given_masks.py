"""Masks that lie in a file of their own, one for each frame of a video.

What a heuristic that changes whole frames does inside given masks only.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.io.arrays import list_array_names, read_array
from masquerade.mechanism import Frames, Heuristic, Shape, Value, as_video
from masquerade.noise import Noise
from masquerade.recordings import Video


def read_given_masks(path: str | None, shape: Shape, *, instead: str) -> Iterator[np.ndarray]:
    """(H, W) bool of each frame: where the file is not 0.

    Args:
        path: a .npy or .npz with one array (T, H, W) of bools or whole numbers.
        shape: (T, H, W, 3) of the video.
        instead: what may be done where there is no file.

    Raises:
        BadInput: if there is none, if it cannot be read, or if it does not fit the video.
    """
    return (mask != 0 for mask in read_given_labels(path, shape, name="masks", instead=instead))


def read_given_labels(
    path: str | None, shape: Shape, *, name: str, instead: str
) -> Iterator[np.ndarray]:
    """(H, W) whole numbers of each frame, as the file has them; errors as `read_given_masks`."""
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
    names = list_array_names(path)
    if len(names) > 1:
        raise BadInput(
            f"Expected one array of bools or whole numbers in {path}, got {', '.join(names)}; save "
            "the one that counts by itself."
        )

    def check_mask_frames(shape: Shape, dtype: np.dtype[np.generic]) -> None:
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

    return read_array(path, check_mask_frames)


class MaskRegion(StrEnum):
    """Which part of a frame is changed."""

    ALL = "all"
    GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class InsideMasks(Heuristic):
    """The fields of a heuristic that may be kept to given masks.

    Args:
        region: all, or given (inside masks; all else is published as it is).
        masks: with region given, a .npy or .npz with one array (T, H, W), not 0 where something is
            changed; in Python a `Video` brings its own. It is private; no receipt names it.
    """

    region: str = "all"
    masks: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check.parse_choice(MaskRegion, region=self.region)
        if self.masks is not None and self.region != MaskRegion.GIVEN:
            raise ValueError(
                f"Expected masks with region given, got region={self.region}; leave one out."
            )

    @abstractmethod
    def change_frames(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """New frames, changed everywhere; one for each that is taken."""

    @property
    def is_partial(self) -> bool:
        """Inside given masks."""
        return self.region == MaskRegion.GIVEN

    def encode_fields(self) -> dict[str, Any]:
        """The public fields; where the private masks lie is not one of them."""
        return {**super().encode_fields(), "masks": None}

    def apply(self, value: Value, noise: Noise) -> Value:
        """The released video; a `Video` with masks of its own is changed inside those."""
        is_own = isinstance(value, Video) and self.region == MaskRegion.GIVEN and self.masks is None
        if not (is_own and isinstance(value, Video)) or value.person_mask is None:
            return super().apply(value, noise)
        self.check(value)
        shape, masks = value.frames.shape, iter(value.person_mask)
        shown = self._mix_frames(iter(value.frames), masks, shape, noise)
        return Video(frames=np.stack(list(shown)), rate_hz=value.rate_hz)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames, changed where they are to be."""
        if self.region == MaskRegion.ALL:
            return self.change_frames(frames, shape, noise)
        masks = read_given_masks(self.masks, as_video(shape), instead="leave --region out")
        return self._mix_frames(frames, masks, shape, noise)

    def _mix_frames(
        self, frames: Frames, masks: Iterator[np.ndarray], shape: Shape, noise: Noise
    ) -> Frames:
        taken, beside = itertools.tee(frames)
        made = self.change_frames(taken, shape, noise)
        for image, frame, mask in zip(made, beside, masks, strict=True):
            yield np.where(mask[..., None], image, frame)
