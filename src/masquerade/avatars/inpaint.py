"""Remove people from a film: what other frames saw behind them stands in their place.

The place behind a frame is its plate's (`plates`), as the camera of that frame sees it (`align`).
Light changes over a film, so the plate's colours are moved by what the plate and the frame differ
by around the people, smoothly. A network that does it better is a module of the user's.

Paint in what no frame ever saw: a like piece of the same picture, in the light of its new place.

For each hole that piece of the picture is sought whose surroundings are most like the hole's, most
of all to its left and right, where floors and walls go on. It is put there, and its colours are
moved smoothly so that they meet those around. A hole that no piece fits is filled from its rim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from masquerade import _optional
from masquerade._optional import lazy_module
from masquerade.avatars.segment import SoftMask
from masquerade.errors import BadInput

cv2 = lazy_module("cv2", extra="vision")


_LINES = 240  # of the picture in which pieces are compared
_RING = 6  # pixels around a hole, of that
_UP = 0.02  # what a piece from above or below is thought worse by, a pixel, in shares of a variance
_RIM_FILL_LINES = 480  # lines at which a hole is filled from its rim
_REACH = 5  # pixels, of that
_TONE_PX = 8  # pixels in one of the small picture in which tones are compared
_MAX_TONE_SHADES = 48  # shades: a larger difference is another thing, no other light


def fill_holes(picture: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8: a picture whose holes (H, W) bool are filled; all else is as it was."""
    if hole.all():
        return np.full_like(picture, 128)
    out = _fill_from_rim(picture, hole)
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(hole.astype(np.uint8))
    for number in range(1, count):
        left, top, wide, tall = boxes[number, :4].tolist()
        shift = _find_best_shift(picture, hole, (top, left, tall, wide))
        if shift is not None:
            part = np.s_[top : top + tall, left : left + wide]
            _copy_patch(out, picture, labels == number, part, shift)
    return out


def carry_tone(frame: np.ndarray, place: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """(H, W, 3): what a frame has more than a place around ``hidden``, smoothly carried into it."""
    rows, columns = hidden.shape
    size = (-(-columns // _TONE_PX), -(-rows // _TONE_PX))
    small, behind, share = (
        cv2.resize(one, size, interpolation=cv2.INTER_AREA).reshape(*size[::-1], -1)
        for one in (frame, place, hidden.astype(np.uint8) * 255)
    )
    apart = small.astype(np.float32) - behind
    known = ((share[..., 0] == 0) & (np.abs(apart).max(axis=2) < _MAX_TONE_SHADES)).astype(
        np.float32
    )
    filled = _spread_known_values(apart * known[..., None], known)
    return np.asarray(cv2.resize(filled, (columns, rows), interpolation=cv2.INTER_LINEAR))


def _find_best_shift(
    picture: np.ndarray, hole: np.ndarray, box: tuple[int, int, int, int]
) -> tuple[int, int] | None:
    """Rows and columns from a hole to the piece that fits it best; None if there is none."""
    height, width = hole.shape
    scale = min(1.0, _LINES / height)
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    gone = cv2.resize(hole.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0
    by_row, by_column = size[1] / height, size[0] / width
    top, left, tall, wide = box
    rows = slice(
        max(0, int(top * by_row) - _RING), min(size[1], int((top + tall) * by_row) + _RING + 2)
    )
    columns = slice(
        max(0, int(left * by_column) - _RING),
        min(size[0], int((left + wide) * by_column) + _RING + 2),
    )
    own, ring = gone[rows, columns], ~gone[rows, columns]
    if not ring.any() or own.shape == gone.shape:
        return None
    small[gone] = 0
    cost = cv2.matchTemplate(
        small,
        small[rows, columns],
        cv2.TM_SQDIFF,
        mask=np.repeat(ring[..., None], 3, 2).astype(np.float32),
    )
    lost = cv2.matchTemplate(gone.astype(np.float32), np.ones(own.shape, np.float32), cv2.TM_CCORR)
    spread = float(small[~gone].var()) * 3 * ring.sum()
    away = np.abs(np.arange(len(cost)) - rows.start)[:, None]
    cost = np.where(lost < 0.5, cost + _UP * away * spread, np.inf)
    if not np.isfinite(cost).any():
        return None
    row, column = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return (
        round((int(row) - rows.start) / by_row),
        round((int(column) - columns.start) / by_column),
    )


def _copy_patch(
    out: np.ndarray,
    picture: np.ndarray,
    hole: np.ndarray,
    part: tuple[slice, slice],
    shift: tuple[int, int],
) -> None:
    """Fill a hole of ``out`` with the piece of the picture that lies ``shift`` away."""
    height, width = hole.shape
    margin = 4 * _TONE_PX
    around = tuple(
        slice(max(0, each.start - margin, -by), min(size, each.stop + margin, size - by))
        for each, by, size in zip(part, shift, (height, width), strict=True)
    )
    from_there = tuple(
        slice(each.start + by, each.stop + by) for each, by in zip(around, shift, strict=True)
    )
    piece, own = picture[from_there], hole[around]
    light = carry_tone(picture[around], piece, own)
    filled = np.rint(piece + light).clip(0, 255).astype(np.uint8)
    np.copyto(out[around], filled, where=own[..., None])


def _fill_from_rim(picture: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """Colours carried in from the rim, in smaller."""
    rows, columns = hole.shape
    scale = min(1.0, _RIM_FILL_LINES / rows)
    size = (max(1, round(columns * scale)), max(1, round(rows * scale)))
    gone = cv2.resize(hole.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 0
    gone = gone.reshape(size[::-1])
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).reshape(*size[::-1], 3)
    if gone.all():
        filled = np.full_like(small, round(float(picture[~hole].mean())))
    else:
        filled = cv2.inpaint(small, gone.astype(np.uint8), _REACH, cv2.INPAINT_TELEA)
    whole = cv2.resize(filled, (columns, rows), interpolation=cv2.INTER_LINEAR)
    return np.where(hole[..., None], whole.reshape(picture.shape), picture)


def _spread_known_values(sums: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Where ``share`` (H, W) of the values is known, their mean; elsewhere what is around."""
    height, width = share.shape
    if height == 1 and width == 1:
        return np.asarray(sums / max(float(share[0, 0]), 1e-6))
    half = (-(-width // 2), -(-height // 2))
    coarse = _spread_known_values(
        np.atleast_3d(cv2.resize(sums, half, interpolation=cv2.INTER_AREA)).reshape(
            *half[::-1], -1
        ),
        cv2.resize(share, half, interpolation=cv2.INTER_AREA).reshape(half[::-1]),
    )
    behind = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    behind = np.asarray(behind).reshape(height, width, -1)
    sure = np.minimum(1.0, 4.0 * share)[..., None]
    return np.asarray(sure * sums / np.maximum(share, 1e-6)[..., None] + (1 - sure) * behind)


Inpaint: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
_MARGIN_PX = 32  # around people, where the light is compared
_WINDOW, _OVERLAP = 40, 8  # frames that a user's network is given at a time


def remove_people(
    frame: np.ndarray, place: np.ndarray, people: SoftMask, *, is_same_light: bool = False
) -> np.ndarray:
    """(H, W, 3) uint8: a frame in which the place stands where people were.

    Args:
        frame: (H, W, 3) uint8.
        place: of the same shape, what lies behind.
        people: where they are; nothing else changes.
        is_same_light: whether the place is as bright as the frame.
    """
    out = frame.copy()
    for part in _list_mask_parts(people.q, margin=_MARGIN_PX):
        before, behind, q = frame[part], place[part], people.q[part]
        if not is_same_light:
            behind = cv2.add(behind, carry_tone(before, behind, q), dtype=cv2.CV_8U)
        alpha = people.alpha[part]
        mixed = cv2.blendLinear(before, behind, 1 - alpha, alpha)
        np.copyto(out[part], mixed, where=q[..., None])
    return out


def _list_mask_parts(mask: np.ndarray, *, margin: int) -> list[tuple[slice, slice]]:
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
    found = _optional.load_function(path, "inpaint", signature="frames, people")
    return lambda frames, people: _check_inpainted(found(frames, people), frames, path)


def _check_inpainted(found: object, frames: np.ndarray, path: Path) -> np.ndarray:
    got = np.asarray(found)
    if got.shape != frames.shape or got.dtype != np.uint8:
        raise BadInput(
            f"Expected {frames.shape} uint8 from inpaint in {path}, got {got.shape} {got.dtype}."
        )
    return got


def run_in_windows(
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
            made = _join_chunks(tail, made)
            tail = None
        last = len(made) if is_over else len(made) - _OVERLAP
        yield from made[:last]
        held, tail = held[last:], made[last:]
    if tail is not None:
        yield from tail


def _join_chunks(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """``after``, of which the first frames are mixed with ``before`` more and more."""
    count = len(before)
    share = (np.arange(1, count + 1) / (count + 1))[:, None, None, None].astype(np.float32)
    mixed = before + (after[:count].astype(np.float32) - before) * share
    return np.concatenate([np.rint(mixed).astype(np.uint8), after[count:]])
