"""Pictures of people for an attacker to look at: squares out of some frames of recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.attack.attribute_labels import Told, told_at
from masquerade.attack.case import Recording
from masquerade.errors import BadInput
from masquerade.nets.person_crops import CROP_PX, around, cropped
from masquerade.recordings import Photo, Signal

_WHOLE = (0.5, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pictures:
    """What an attacker sees of recordings, and the truth.

    Args:
        squares: (N, 3, 64, 64) uint8.
        of: (N,) the number of each square's recording.
        told: N times, what is true about who is seen.
        whose: N times, the person, or the recording where the person is not known.
    """

    squares: np.ndarray
    of: np.ndarray
    told: Sequence[Told]
    whose: list[str]


def shows_where(recording: Recording) -> bool:
    """Whether it is known where the person is."""
    if isinstance(recording, Signal):
        return False
    joints = recording.joints
    return joints is not None and bool(np.isfinite(joints).any())


def pictures(
    recordings: Iterable[Recording],
    *,
    each: int,
    is_near: bool,
    progress: Callable[[int], None],
) -> Pictures:
    """Some squares of every recording, spread over its frames; of frames without labels none.

    Args:
        recordings: videos or photos, read one at a time.
        each: squares of a video; a photo has one.
        is_near: whether squares are around the person, as their joints say; else whole frames.
        progress: called with how many are read.
    """
    squares, of, told, whose = [], [], [], []
    for number, recording in enumerate(recordings):
        frames, joints = _frames(recording)
        count = min(each, len(frames))
        spread = np.linspace(0, len(frames) - 1, count).round().astype(int).tolist()
        known = {frame: told_at(recording.attributes, frame) for frame in spread}
        some = [frame for frame in spread if known[frame]]
        if some:
            near = joints[some] if is_near and joints is not None else None
            squares.append(_squares(frames[some], near))
            of += [number] * len(some)
            told += [known[frame] for frame in some]
            whose += [recording.subject or f"recording {number}"] * len(some)
        progress(number + 1)
    if not squares:
        raise BadInput(
            "Expected recordings of which it is known what people look like, got none; take a "
            "data set that has such labels (stage, vispr, pa_hmdb51)."
        )
    return Pictures(squares=np.concatenate(squares), of=np.array(of), told=told, whose=whose)


def _frames(recording: Recording) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(recording, Photo):
        joints = None if recording.joints is None else recording.joints[None]
        return recording.image[None], joints
    if isinstance(recording, Signal):
        raise BadInput("Expected videos or photos to look at, got a signal; take another kind.")
    return recording.frames, recording.joints


def _squares(frames: np.ndarray, joints: np.ndarray | None) -> np.ndarray:
    """(K, 3, 64, 64): around joints (K, J, 2), or of whole frames, continued to a square."""
    height, width = frames.shape[1:3]
    side = max(height, width)
    edges = ((0, 0), (0, side - height), (0, side - width), (0, 0))
    pixels = torch.from_numpy(np.pad(frames, edges, mode="edge")).permute(0, 3, 1, 2).float()
    boxes = np.tile(np.array(_WHOLE), (len(frames), 1))
    if joints is not None:
        is_seen = np.isfinite(joints).all(axis=2).any(axis=1)
        boxes[is_seen] = around(joints[is_seen], side)
    return _as_bytes(_shrunk(pixels, torch.from_numpy(boxes).float()))


def _shrunk(pixels: Tensor, boxes: Tensor) -> Tensor:
    """Squares, of frames that were made smaller first where one would skip pixels."""
    most = int(boxes[:, 2].max().item() * pixels.shape[-1] // CROP_PX)
    if most > 1:
        pixels = torch.nn.functional.avg_pool2d(pixels, most, ceil_mode=True)
    return cropped(pixels, boxes)


def _as_bytes(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.round().clamp(0, 255).to(torch.uint8).numpy()
    return found
