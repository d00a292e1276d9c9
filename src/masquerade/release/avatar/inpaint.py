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

from masquerade._optional import require
from masquerade.errors import BadInput
from masquerade.files.user_module import function_of
from masquerade.release.avatar.segment import Edged

cv2 = require("cv2", extra="vision")

Inpaint: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
_TONE_PX = 8  # pixels of the frame in one of the small picture in which tones are compared
_ODD = 48  # shades: a larger difference is a thing that moved, no other light
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
    part = _around(people.q, margin=4 * _TONE_PX)
    if part is None:
        return out
    before, behind = frame[part].astype(np.float32), place[part].astype(np.float32)
    q, alpha = people.q[part], people.alpha[part][..., None]
    behind += 0.0 if is_same_light else _tone(before - behind, q)
    mixed = before + (behind - before) * alpha
    out[part] = np.where(q[..., None], np.rint(mixed).clip(0, 255), before).astype(np.uint8)
    return out


def _around(mask: np.ndarray, *, margin: int) -> tuple[slice, slice] | None:
    """Rows and columns that a mask reaches and a margin; None if it is empty."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    return (
        slice(max(0, rows[0] - margin), rows[-1] + 1 + margin),
        slice(max(0, columns[0] - margin), columns[-1] + 1 + margin),
    )


def _tone(apart: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(H, W, 3): a smooth field that has the values of ``apart`` around ``q``, and fills it."""
    counts = ~q & (np.abs(apart).max(axis=2) < _ODD)
    rows, columns = q.shape
    size = (-(-columns // _TONE_PX), -(-rows // _TONE_PX))
    known = counts.astype(np.float32)
    small = cv2.resize(apart * known[..., None], size, interpolation=cv2.INTER_AREA)
    share = cv2.resize(known, size, interpolation=cv2.INTER_AREA)
    filled = _pulled(np.atleast_3d(small), share)
    return np.asarray(cv2.resize(filled, (columns, rows), interpolation=cv2.INTER_LINEAR))


def _pulled(sums: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Where ``share`` (H, W) of the values is known, their mean; elsewhere what is around."""
    height, width = share.shape
    if height == 1 and width == 1:
        return np.asarray(sums / max(float(share[0, 0]), 1e-6))
    half = (-(-width // 2), -(-height // 2))
    coarse = _pulled(
        np.atleast_3d(cv2.resize(sums, half, interpolation=cv2.INTER_AREA)).reshape(
            *half[::-1], -1
        ),
        cv2.resize(share, half, interpolation=cv2.INTER_AREA).reshape(half[::-1]),
    )
    behind = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    behind = np.asarray(behind).reshape(height, width, -1)
    sure = np.minimum(1.0, 4.0 * share)[..., None]
    return np.asarray(sure * sums / np.maximum(share, 1e-6)[..., None] + (1 - sure) * behind)


def from_module(path: Path) -> Inpaint:
    """The function ``inpaint(frames, people)`` of a user's Python file.

    It is given (T, H, W, 3) uint8 and (T, H, W) bool and gives (T, H, W, 3) uint8, which is used
    where people are.

    Raises:
        BadInput: if there is no such file, it cannot be run, or has no such function.
    """
    found = function_of(path, "inpaint", takes="frames, people")
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
