"""Masks as shapes: grown, shrunk, soft at the rim, and which of their things touch another mask.

A person's mask grows, and its rim is soft outside of what it grew to: no part of a person is mixed.

Legs that something hides: a desk, a bed, a car in front of somebody.

The pose network guesses where legs are that nobody sees, and trusts them little; and there no mask
says that anybody is. Where both tell so, now and again within two seconds, a leg is hidden: of the
figure's leg only that is drawn then which lies where people were.

Put avatars over the emptied film, and say which pixels are drawn for certain.

`render` draws all avatars of a frame at once, the nearer over the farther. Their rims are softened
here inside what was drawn, so that nothing outside changes. A pixel is *synthetic for certain* if
nothing of what lies behind is mixed into it: its alpha is 1, and so is that of all pixels around
it, as far as the rim is soft.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masquerade._optional import Later, ndimage
from masquerade.stage.bodies import BONES, Model
from masquerade.vision.person_tracks import Track
from masquerade.vision.poses import JOINTS

cv2 = Later("cv2", extra="vision")


@dataclass(frozen=True, kw_only=True, eq=False)
class Edged:
    """A mask with its soft rim.

    Args:
        alpha: (H, W) float32, 1 on the mask grown, falling to 0 at the end of its rim.
        q: (H, W) bool, where ``alpha`` is above 0: all that may change.
    """

    alpha: np.ndarray
    q: np.ndarray


def together(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(H, W) bool: those things in a mask that share a pixel with another mask.

    Example:
        >>> mask = np.array([[True, True, False, True]])
        >>> together(mask, np.array([[True, False, False, False]]))
        array([[ True,  True, False, False]])
    """
    count, labels = cv2.connectedComponents(mask.astype(np.uint8))
    found = np.zeros(count, bool)
    found[labels[other]] = True
    found[0] = False
    return np.asarray(found[labels])


def edged(mask: np.ndarray, *, grow_px: int, blend_px: int) -> Edged:
    """The mask grown, with a soft rim of ``2 * blend_px`` pixels around it.

    Example:
        >>> mask = np.zeros((9, 9), bool)
        >>> mask[4, 4] = True
        >>> soft = edged(mask, grow_px=1, blend_px=1)
        >>> int((soft.alpha == 1).sum()), int(soft.q.sum())
        (9, 49)
    """
    alpha, q = np.zeros(mask.shape, np.float32), np.zeros(mask.shape, bool)
    reach = around(mask, grow_px + 3 * blend_px)
    part, side = mask[reach], 2 * blend_px + 1
    soft = grown(part, grow_px + blend_px).astype(np.float32)
    if blend_px > 0:
        soft = cv2.GaussianBlur(soft, (side, side), blend_px / 1.5 + 0.3)
    q[reach] = grown(part, grow_px + 2 * blend_px)
    np.copyto(alpha[reach], soft, where=q[reach])
    alpha[reach][grown(part, grow_px)] = 1
    return Edged(alpha=alpha, q=q)


def around(mask: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Rows and columns that a mask reaches, and a margin."""
    left, top, wide, tall = cv2.boundingRect(mask.view(np.uint8))
    return (
        slice(max(0, top - margin), top + tall + margin),
        slice(max(0, left - margin), left + wide + margin),
    )


def grown(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies within ``by_px`` of the mask, up, down, left and right."""
    if by_px < 1:
        return mask.copy()
    side = np.ones((2 * by_px + 1, 1), np.uint8)
    wide = cv2.dilate(mask.astype(np.uint8), side)
    return np.asarray(cv2.dilate(wide, side.T) > 0)


def shrunk(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies deeper than ``by_px`` in the mask; beyond the border it goes on."""
    return np.asarray(~grown(~mask, by_px))


_SIDES = (("left", "L"), ("right", "R"))
_ENDS = [[JOINTS.index(f"{side}_{end}") for end in ("knee", "ankle")] for side, _ in _SIDES]
_PARTS = ("upperleg01", "lowerleg01", "foot")  # bones of a leg
_DOUBT = 0.6  # trust in a leg that may be hidden
_AROUND_S = 1.0  # seconds before and after
_OFTEN = 0.1  # of these, in which it lies where nobody is
_NEAR = 0.04  # of a body's height: so far outside of a mask

Masks = Callable[[int], np.ndarray]


def hidden_legs(track: Track, people: Masks, *, rate_hz: float) -> np.ndarray:
    """(T, 2) bool: whether the left and the right leg of somebody are hidden.

    Args:
        track: of the person.
        people: (H, W) bool of a frame's number: where people are.
        rate_hz: frames a second.
    """
    trust = np.stack([track.joints[:, ends, 2].mean(axis=1) for ends in _ENDS], axis=1)
    width = 2 * max(1, round(_AROUND_S * rate_hz)) + 1
    is_doubtful = ndimage.uniform_filter1d(trust, width, axis=0, mode="nearest") < _DOUBT
    is_outside = np.zeros(is_doubtful.shape)
    for at in np.flatnonzero(is_doubtful.any(axis=1)).tolist():
        margin = max(2, round(_NEAR * np.ptp(track.joints[at, :, 1])))
        mask = grown(people(track.start + at), margin)
        is_outside[at] = [_is_outside(track.joints[at, ends, :2], mask) for ends in _ENDS]
    often = ndimage.uniform_filter1d(is_outside, width, axis=0, mode="nearest")
    return np.asarray(is_doubtful & (often > _OFTEN))


def shown_faces(
    model: Model, seen: np.ndarray, is_hidden: np.ndarray, people: np.ndarray
) -> np.ndarray:
    """(F, 3): the triangles of a body, of hidden legs only those that lie where the person was.

    The others have three times the same corner, so that they keep their number and cover nothing.

    Args:
        model: of the body.
        seen: (V, 2 or more) pixels of its vertices.
        is_hidden: (2,) bool, the left and the right leg.
        people: (H, W) bool; what does not hang together with what lies behind the trunk is not
            this person.
    """
    faces, leg = model.faces, _legs(model)
    trunk = _inside(seen[faces[leg < 0], :2].mean(axis=1), people.shape)
    behind = np.zeros_like(people)
    behind[trunk[:, 1], trunk[:, 0]] = True
    own = together(people, behind)
    wanted = np.flatnonzero((leg >= 0) & is_hidden[leg])
    is_shown = _are_in(seen[faces[wanted], :2].mean(axis=1), own)
    shown = faces.copy()
    shown[wanted[~is_shown]] = faces[wanted[~is_shown], :1]
    return np.asarray(shown)


def _legs(model: Model) -> np.ndarray:
    """(F,) whether a triangle is of the left leg (0), the right (1) or neither (-1)."""
    corners = model.weights.argmax(axis=1)[model.faces]
    found = np.full(len(corners), -1)
    for side, (_, letter) in enumerate(_SIDES):
        leg = [BONES.index(f"{part}.{letter}") for part in _PARTS]
        found[np.isin(corners, leg).sum(axis=1) >= 2] = side
    return found


def _is_outside(places: np.ndarray, mask: np.ndarray) -> bool:
    """Whether points (P, 2) lie in the picture, all of them, and none of them in the mask."""
    return len(_inside(places, mask.shape)) == len(places) and not _are_in(places, mask).any()


def _are_in(places: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(P,) bool: which points (P, 2) lie in a mask."""
    across, down = np.rint(places).astype(int).T
    height, width = mask.shape
    is_in = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    is_in[is_in] = mask[down[is_in], across[is_in]]
    return np.asarray(is_in)


def _inside(places: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Points (P, 2), across and down, that lie in a picture of that size, as whole numbers."""
    whole = np.rint(places).astype(int)
    return np.asarray(whole[((whole >= 0) & (whole < size[1::-1])).all(axis=1)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Merged:
    """A frame with avatars.

    Args:
        image: (H, W, 3) uint8.
        r: (H, W) bool, where anything was drawn.
        eroded_r: (H, W) bool, where nothing but the drawing is seen.
    """

    image: np.ndarray
    r: np.ndarray
    eroded_r: np.ndarray


def merged(behind: np.ndarray, drawn: np.ndarray, alpha: np.ndarray, *, blend_px: int) -> Merged:
    """Avatars over what is behind them.

    Args:
        behind: (H, W, 3) uint8, the emptied frame.
        drawn: of the same shape, the avatars over it, as `render.drawn` gives them.
        alpha: (H, W), how much of a pixel they cover; 1 where nothing shines through.
        blend_px: how wide the rim is softened, inside of the avatars.
    """
    r, whole = alpha > 0, alpha >= 1
    certain = shrunk(whole, blend_px)
    if not r.any():
        return Merged(image=behind.copy(), r=r, eroded_r=certain)
    rows, columns = _box(r)
    part = np.s_[rows, columns]
    share = np.where(r[part], _soft(whole[part], blend_px), np.float32(0))
    share[certain[part]] = 1.0
    mixed = behind[part] + (drawn[part].astype(np.float32) - behind[part]) * share[..., None]
    image = behind.copy()
    image[part] = np.where(r[part][..., None], np.rint(mixed), behind[part]).astype(np.uint8)
    return Merged(image=image, r=r, eroded_r=certain)


def _soft(whole: np.ndarray, blend_px: int) -> np.ndarray:
    """(H, W) float32: 1 inside, and less within ``blend_px`` of the rim, never below a half.

    What is drawn there is anti-aliased already; half of it is enough to soften a step.
    """
    if blend_px == 0:
        return np.ones(whole.shape, np.float32)
    side = 2 * blend_px + 1
    kind = cv2.BORDER_REPLICATE
    return np.asarray(cv2.blur(whole.astype(np.float32), (side, side), borderType=kind)).clip(0.5)


def _box(mask: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns that a mask reaches."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
