"""Remove people from a film: what other frames saw behind them stands in their place.

The place behind a frame is its plate's (`plates`), as the camera of that frame sees it (`align`).
Light changes over a film, so the plate's colours are moved by what the plate and the frame differ
by around the people, smoothly. A network that does it better is a module of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from masquerade import _own_code
from masquerade._optional import Later
from masquerade.errors import BadInput
from masquerade.release.avatar.outline import Edged
from masquerade.release.avatar.patches import toned

cv2 = Later("cv2", extra="vision")

Inpaint: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
_MARGIN_PX = 32  # around people, where the light is compared
_WINDOW, _OVERLAP = 40, 8  # frames that a user's network is given at a time


def emptied(
    frame: np.ndarray, place: np.ndarray, people: Edged, *, is_same_light: bool = False
) -> np.ndarray:
    """(H, W, 3) uint8: a frame in which the place stands where people were.

    Args:
        frame: (H, W, 3) uint8.
        place: of the same shape, what lies behind.
        people: where they are; nothing else changes.
        is_same_light: whether the place is as bright as the frame.
    """
    out = frame.copy()
    for part in _parts(people.q, margin=_MARGIN_PX):
        before, behind, q = frame[part], place[part], people.q[part]
        if not is_same_light:
            behind = cv2.add(behind, toned(before, behind, q), dtype=cv2.CV_8U)
        alpha = people.alpha[part]
        mixed = cv2.blendLinear(before, behind, 1 - alpha, alpha)
        np.copyto(out[part], mixed, where=q[..., None])
    return out


def _parts(mask: np.ndarray, *, margin: int) -> list[tuple[slice, slice]]:
    """Rows and columns around each thing in a mask, with a margin."""
    height, width = mask.shape
    rows, columns = -(-height // margin), -(-width // margin)
    share = cv2.resize(mask.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    near = cv2.dilate((share > 0).astype(np.uint8), np.ones((3, 3), np.uint8))
    count, _, boxes, _ = cv2.connectedComponentsWithStats(near.reshape(rows, columns))
    found = (boxes[number, :4].tolist() for number in range(1, count))
    return [
        (
            slice(top * height // rows, -(-(top + tall) * height // rows)),
            slice(left * width // columns, -(-(left + wide) * width // columns)),
        )
        for left, top, wide, tall in found
    ]


def from_module(path: Path) -> Inpaint:
    """The function ``inpaint(frames, people)`` of a user's Python file.

    It is given (T, H, W, 3) uint8 and (T, H, W) bool and gives (T, H, W, 3) uint8, which is used
    where people are.

    Raises:
        BadInput: if there is no such file, it cannot be run, or has no such function.
    """
    found = _own_code.function(path, "inpaint", signature="frames, people")
    return lambda frames, people: _checked(found(frames, people), frames, path)


def _checked(found: object, frames: np.ndarray, path: Path) -> np.ndarray:
    got = np.asarray(found)
    if got.shape != frames.shape or got.dtype != np.uint8:
        raise BadInput(
            f"Expected {frames.shape} uint8 from inpaint in {path}, got {got.shape} {got.dtype}."
        )
    return got


def in_windows(
    inpaint: Inpaint, pairs: Iterator[tuple[np.ndarray, np.ndarray]]
) -> Iterator[np.ndarray]:
    """What a function makes of a long film: windows that overlap, mixed where they do.

    Args:
        inpaint: as `from_module` gives it.
        pairs: frames (H, W, 3) and where people are in them, (H, W) bool.

    Yields:
        (H, W, 3) uint8 for each frame.
    """
    held: list[tuple[np.ndarray, np.ndarray]] = []
    tail: np.ndarray | None = None  # what the window before made of the first of these
    is_over = False
    while not is_over:
        while len(held) < _WINDOW and not is_over:
            pair = next(pairs, None)
            is_over = pair is None
            held += [] if pair is None else [pair]
        if not held or (is_over and tail is not None and len(held) == len(tail)):
            break
        made = inpaint(np.stack([one for one, _ in held]), np.stack([two for _, two in held]))
        if tail is not None:
            made = _joined(tail, made)
            tail = None
        last = len(made) if is_over else len(made) - _OVERLAP
        yield from made[:last]
        held, tail = held[last:], made[last:]
    if tail is not None:
        yield from tail


def _joined(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """``after``, of which the first frames are mixed with ``before`` more and more."""
    count = len(before)
    share = (np.arange(1, count + 1) / (count + 1))[:, None, None, None].astype(np.float32)
    mixed = before + (after[:count].astype(np.float32) - before) * share
    return np.concatenate([np.rint(mixed).astype(np.uint8), after[count:]])
