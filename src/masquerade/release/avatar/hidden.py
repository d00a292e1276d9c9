"""Legs that something hides: a desk, a bed, a car in front of somebody.

The pose network guesses where legs are that nobody sees, and trusts them little; and there no mask
says that anybody is. Where both tell so, now and again within two seconds, a leg is hidden: of the
figure's leg only that is drawn then which lies where people were.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import uniform_filter1d

from masquerade.people.bodies import BONES, Model
from masquerade.release.avatar.outline import grown, together
from masquerade.sight.person_tracks import Track
from masquerade.sight.poses import JOINTS

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
    is_doubtful = uniform_filter1d(trust, width, axis=0, mode="nearest") < _DOUBT
    is_outside = np.zeros(is_doubtful.shape)
    for at in np.flatnonzero(is_doubtful.any(axis=1)).tolist():
        margin = max(2, round(_NEAR * np.ptp(track.joints[at, :, 1])))
        mask = grown(people(track.start + at), margin)
        is_outside[at] = [_is_outside(track.joints[at, ends, :2], mask) for ends in _ENDS]
    often = uniform_filter1d(is_outside, width, axis=0, mode="nearest")
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
