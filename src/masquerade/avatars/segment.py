"""Person masks q: who was posed and what the segmenter sees near them, steady, grown and soft.

Two public networks say which pixels are a person's: the pose network, of whom it follows, and the
segmenter, around the same people. The segmenter also takes for people what is none (a tree, a
building), so of it only counts what lies near somebody, or is surely a person's and hangs together
with them: of two who stand close together the pose network often sees only one. A pixel is kept if
either thinks that it may be a person's.

Over time a mask flickers, and what flickers shows somebody for a moment. So a pixel is a person's
in a frame, too, if it is in the frame before or after, or both some frames before and some after.
Where the place behind is known, whatever differs from it and touches somebody is theirs as well: a
leg that the networks missed, a bag, a shadow.

Masks as shapes: grown, shrunk, soft at the rim, and which of their things touch another mask.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from masquerade._optional import lazy_module, ndimage
from masquerade.io.streams import MaskSpool
from masquerade.stage.bodies import BONES, BodyModel
from masquerade.vision.person_detector import PersonSegmenter
from masquerade.vision.poses import JOINTS, SHOWN_PX, PersonPose
from masquerade.vision.tracks import PersonTrack

cv2 = lazy_module("cv2", extra="vision")


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftMask:
    """A mask with its soft rim.

    Args:
        alpha: (H, W) float32, 1 on the mask grown, falling to 0 at the end of its rim.
        q: (H, W) bool, where ``alpha`` is above 0: all that may change.
    """

    alpha: np.ndarray
    q: np.ndarray


def select_touching(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(H, W) bool: those things in a mask that share a pixel with another mask.

    Example:
        >>> mask = np.array([[True, True, False, True]])
        >>> select_touching(mask, np.array([[True, False, False, False]]))
        array([[ True,  True, False, False]])
    """
    count, labels = cv2.connectedComponents(mask.astype(np.uint8))
    found = np.zeros(count, bool)
    found[labels[other]] = True
    found[0] = False
    return np.asarray(found[labels])


def make_soft_edge(mask: np.ndarray, *, grow_px: int, blend_px: int) -> SoftMask:
    """The mask grown, with a soft rim of ``2 * blend_px`` pixels around it.

    Example:
        >>> mask = np.zeros((9, 9), bool)
        >>> mask[4, 4] = True
        >>> soft = make_soft_edge(mask, grow_px=1, blend_px=1)
        >>> int((soft.alpha == 1).sum()), int(soft.q.sum())
        (9, 49)
    """
    alpha, q = np.zeros(mask.shape, np.float32), np.zeros(mask.shape, bool)
    reach = find_mask_window(mask, grow_px + 3 * blend_px)
    part, side = mask[reach], 2 * blend_px + 1
    soft = grow_mask(part, grow_px + blend_px).astype(np.float32)
    if blend_px > 0:
        soft = cv2.GaussianBlur(soft, (side, side), blend_px / 1.5 + 0.3)
    q[reach] = grow_mask(part, grow_px + 2 * blend_px)
    np.copyto(alpha[reach], soft, where=q[reach])
    alpha[reach][grow_mask(part, grow_px)] = 1
    return SoftMask(alpha=alpha, q=q)


def find_mask_window(mask: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Rows and columns that a mask reaches, and a margin."""
    left, top, wide, tall = cv2.boundingRect(mask.view(np.uint8))
    return (
        slice(max(0, top - margin), top + tall + margin),
        slice(max(0, left - margin), left + wide + margin),
    )


def grow_mask(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies within ``by_px`` of the mask, up, down, left and right."""
    if by_px < 1:
        return mask.copy()
    side = np.ones((2 * by_px + 1, 1), np.uint8)
    wide = cv2.dilate(mask.astype(np.uint8), side)
    return np.asarray(cv2.dilate(wide, side.T) > 0)


def shrink_mask(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies deeper than ``by_px`` in the mask; beyond the border it goes on."""
    return np.asarray(~grow_mask(~mask, by_px))


_SIDES = (("left", "L"), ("right", "R"))
_ENDS = [[JOINTS.index(f"{side}_{end}") for end in ("knee", "ankle")] for side, _ in _SIDES]
_PARTS = ("upperleg01", "lowerleg01", "foot")  # bones of a leg
_MAX_DOUBTED_TRUST = 0.6  # trust in a leg that may be hidden
_AROUND_S = 1.0  # seconds before and after
_MIN_HIDDEN_SHARE = 0.1  # of these, in which it lies where nobody is
_NEAR_OUTLINE = 0.04  # of a body's height: so far outside of a mask

Masks = Callable[[int], np.ndarray]


def find_legs_behind(track: PersonTrack, people: Masks, *, rate_hz: float) -> np.ndarray:
    """(T, 2) bool: whether the left and the right leg of somebody are hidden.

    Args:
        track: of the person.
        people: (H, W) bool of a frame's number: where people are.
        rate_hz: frames a second.
    """
    trust = np.stack([track.joints[:, ends, 2].mean(axis=1) for ends in _ENDS], axis=1)
    width = 2 * max(1, round(_AROUND_S * rate_hz)) + 1
    is_doubtful = (
        ndimage.uniform_filter1d(trust, width, axis=0, mode="nearest") < _MAX_DOUBTED_TRUST
    )
    is_outside = np.zeros(is_doubtful.shape)
    for at in np.flatnonzero(is_doubtful.any(axis=1)).tolist():
        margin = max(2, round(_NEAR_OUTLINE * np.ptp(track.joints[at, :, 1])))
        mask = grow_mask(people(track.start + at), margin)
        is_outside[at] = [_is_outside(track.joints[at, ends, :2], mask) for ends in _ENDS]
    often = ndimage.uniform_filter1d(is_outside, width, axis=0, mode="nearest")
    return np.asarray(is_doubtful & (often > _MIN_HIDDEN_SHARE))


def select_visible_faces(
    model: BodyModel, seen: np.ndarray, is_hidden: np.ndarray, people: np.ndarray
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
    faces, leg = model.faces, _label_leg_triangles(model)
    trunk = _select_inside(seen[faces[leg < 0], :2].mean(axis=1), people.shape)
    behind = np.zeros_like(people)
    behind[trunk[:, 1], trunk[:, 0]] = True
    own = select_touching(people, behind)
    wanted = np.flatnonzero((leg >= 0) & is_hidden[leg])
    is_shown = _find_points_inside(seen[faces[wanted], :2].mean(axis=1), own)
    shown = faces.copy()
    shown[wanted[~is_shown]] = faces[wanted[~is_shown], :1]
    return np.asarray(shown)


def _label_leg_triangles(model: BodyModel) -> np.ndarray:
    """(F,) whether a triangle is of the left leg (0), the right (1) or neither (-1)."""
    corners = model.weights.argmax(axis=1)[model.faces]
    found = np.full(len(corners), -1)
    for side, (_, letter) in enumerate(_SIDES):
        leg = [BONES.index(f"{part}.{letter}") for part in _PARTS]
        found[np.isin(corners, leg).sum(axis=1) >= 2] = side
    return found


def _is_outside(places: np.ndarray, mask: np.ndarray) -> bool:
    """Whether points (P, 2) lie in the picture, all of them, and none of them in the mask."""
    return (
        len(_select_inside(places, mask.shape)) == len(places)
        and not _find_points_inside(places, mask).any()
    )


def _find_points_inside(places: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(P,) bool: which points (P, 2) lie in a mask."""
    across, down = np.rint(places).astype(int).T
    height, width = mask.shape
    is_in = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    is_in[is_in] = mask[down[is_in], across[is_in]]
    return np.asarray(is_in)


def _select_inside(places: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Points (P, 2), across and down, that lie in a picture of that size, as whole numbers."""
    whole = np.rint(places).astype(int)
    return np.asarray(whole[((whole >= 0) & (whole < size[1::-1])).all(axis=1)])


@dataclass(frozen=True, kw_only=True, eq=False)
class MergedFrame:
    """A frame with avatars.

    Args:
        image: (H, W, 3) uint8.
        r: (H, W) bool, where anything was drawn.
        eroded_r: (H, W) bool, where nothing but the drawing is seen.
    """

    image: np.ndarray
    r: np.ndarray
    eroded_r: np.ndarray


def merge_avatars(
    behind: np.ndarray, drawn: np.ndarray, alpha: np.ndarray, *, blend_px: int
) -> MergedFrame:
    """Avatars over what is behind them.

    Args:
        behind: (H, W, 3) uint8, the emptied frame.
        drawn: of the same shape, the avatars over it, as `render.drawn` gives them.
        alpha: (H, W), how much of a pixel they cover; 1 where nothing shines through.
        blend_px: how wide the rim is softened, inside of the avatars.
    """
    r, whole = alpha > 0, alpha >= 1
    certain = shrink_mask(whole, blend_px)
    if not r.any():
        return MergedFrame(image=behind.copy(), r=r, eroded_r=certain)
    rows, columns = _find_mask_box(r)
    part = np.s_[rows, columns]
    share = np.where(r[part], _compute_soft_alpha(whole[part], blend_px), np.float32(0))
    share[certain[part]] = 1.0
    mixed = behind[part] + (drawn[part].astype(np.float32) - behind[part]) * share[..., None]
    image = behind.copy()
    image[part] = np.where(r[part][..., None], np.rint(mixed), behind[part]).astype(np.uint8)
    return MergedFrame(image=image, r=r, eroded_r=certain)


def _compute_soft_alpha(whole: np.ndarray, blend_px: int) -> np.ndarray:
    """(H, W) float32: 1 inside, and less within ``blend_px`` of the rim, never below a half.

    What is drawn there is anti-aliased already; half of it is enough to soften a step.
    """
    if blend_px == 0:
        return np.ones(whole.shape, np.float32)
    side = 2 * blend_px + 1
    kind = cv2.BORDER_REPLICATE
    return np.asarray(cv2.blur(whole.astype(np.float32), (side, side), borderType=kind)).clip(0.5)


def _find_mask_box(mask: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns that a mask reaches."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


_MIN_OWN_LIKELIHOOD = 0.15  # how likely a pixel of a posed person must be
_MIN_LIKELIHOOD = 0.3  # and one that the segmenter sees near one
_NEAR_SEGMENT = 0.07  # of a body's radius: how far from the posed person that may lie
_MIN_SURE_LIKELIHOOD = 0.5  # and one that it sees and that hangs together with one,
_MAX_LOST_DISTANCE = 0.25  # of a body's radius: so far from the box around the posed person
_AROUND = 1.25  # of the circle around a body: what the pose network was shown
_TORSO = (11, 12, 23, 24)  # shoulders and hips, of BlazePose's joints
_LIMBS = (
    *((11, 13), (13, 15), (12, 14), (14, 16), (23, 25), (25, 27), (24, 26), (26, 28)),
    *((27, 31), (28, 32), (11, 12), (23, 24), (11, 23), (12, 24)),
)
_THICK, _HEAD = 0.22, 0.28  # of the torso's length: a limb, and half of a head
_MIN_LIMB_TRUST = 0.3
_STEP, _GONE = 0.05, 0.15  # of the radius: a step in a frame; of the pixels: who is gone
_MAX_SAME_DISTANCE = 0.35  # of the radius: two who are nearer are one
_BOX = 0.15  # of a body's height: how far it reaches out of the box around its joints
_APART, _KNOWN = 30, 1  # shades from the place behind, and frames that must have seen it


@dataclass(frozen=True, kw_only=True, eq=False)
class _LostPerson:
    """Somebody whom the pose network does not find any more.

    Args:
        circle: (3,) around the body, where it was last.
        mask: (H, W) bool, which pixels were theirs.
        least: pixels below which they are gone.
        age: frames since.
    """

    circle: np.ndarray
    mask: np.ndarray
    least: float
    age: int = 0


@dataclass(kw_only=True, eq=False)
class PersonMasks:
    """Makes the masks of frames that follow each other from what was found in them.

    Whom the pose network loses the segmenter alone goes on with, as long as it sees them where they
    were.

    Args:
        segmenter: that looks around everybody who was posed.
        hold: frames after which somebody who was lost is given up.
    """

    segmenter: PersonSegmenter
    hold: int = 60
    _known: list[_LostPerson] = field(default_factory=list, init=False, repr=False)

    def next_mask(self, frame: np.ndarray, poses: Sequence[PersonPose]) -> np.ndarray:
        """(H, W) bool: everybody in the next frame, also those who were lost."""
        found = self.mask_poses(frame, poses)
        posed = [(circle(pose), pose) for pose in poses]
        lost = [
            self._find_lost_again(frame, one)
            for one in self._known
            if not any(_is_there(one.circle, where) for where, _ in posed)
        ]
        self._known = [one for one in lost if one is not None]
        for one in self._known:
            found = found | one.mask
        for where, pose in posed:
            own = pose.project_mask(frame.shape[0], frame.shape[1]) > _MIN_OWN_LIKELIHOOD
            self._known.append(_LostPerson(circle=where, mask=own, least=_GONE * own.sum()))
        return np.asarray(found)

    def _find_lost_again(self, frame: np.ndarray, one: _LostPerson) -> _LostPerson | None:
        x, y, radius = one.circle
        near = grow_mask(one.mask, max(2, round(_STEP * radius)))
        mask = (self.segmenter.search_near(frame, one.circle[None]) > _MIN_LIKELIHOOD) & near
        if one.age >= self.hold or mask.sum() <= one.least:
            return None
        rows, columns = np.nonzero(mask)
        before = np.array([np.mean(axis) for axis in np.nonzero(one.mask)])
        down, across = np.array([rows.mean(), columns.mean()]) - before
        where = np.array([x + across, y + down, radius])
        return _LostPerson(circle=where, mask=mask, least=one.least, age=one.age + 1)

    def mask_anybody(self, frame: np.ndarray) -> np.ndarray:
        """(H, W) bool: whoever the segmenter's own detector finds; for poses of another kind."""
        return np.asarray(
            self.segmenter.search_near(frame, self.segmenter.find_people(frame)) > _MIN_LIKELIHOOD
        )

    def mask_poses(self, frame: np.ndarray, poses: Sequence[PersonPose]) -> np.ndarray:
        """(H, W) bool: where the people of ``poses`` are, not yet steady or grown."""
        found = np.zeros(frame.shape[:2], bool)
        if not poses:
            return found
        circles = np.array([circle(pose) for pose in poses])
        likely = self.segmenter.search_near(frame, circles)
        seen, sure = likely > _MIN_LIKELIHOOD, likely > _MIN_SURE_LIKELIHOOD
        for pose, (_, _, radius) in zip(poses, circles, strict=True):
            own = pose.project_mask(frame.shape[0], frame.shape[1]) > _MIN_OWN_LIKELIHOOD
            found |= own
            found |= seen & grow_mask(own, max(2, round(_NEAR_SEGMENT * radius)))
            beside = find_mask_window(own, round(_MAX_LOST_DISTANCE * radius))
            found[beside] |= select_touching(sure[beside] | own[beside], own[beside])
        return found


def _is_there(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two circles are about one person."""
    apart = float(np.hypot(*(one - other)[:2]))
    return apart < _MAX_SAME_DISTANCE * max(float(one[2]), float(other[2]))


def circle(pose: PersonPose) -> np.ndarray:
    """(3,) x, y and radius in pixels of the circle around a body."""
    scale = np.sqrt(abs(np.linalg.det(pose.to_frame[:, :2])))
    x, y = pose.to_frame @ np.array([SHOWN_PX / 2, SHOWN_PX / 2, 1.0])
    return np.array([x, y, scale * SHOWN_PX / 2 / _AROUND])


def mask_of_track(masks: MaskSpool, number: int, track: PersonTrack) -> np.ndarray:
    """(H, W) bool: the person of a track in a frame, as far as the track tells.

    Limbs are drawn along the joints. Where the person was not seen, their outline of the nearest
    frames before and after in which they were is moved there as well.
    """
    at = number - track.start
    is_seen = bool(track.is_seen[at])
    found = render_limbs(track.joints[at], masks.size, trusted=_MIN_LIMB_TRUST if is_seen else 0.0)
    if is_seen:
        return found
    seen = np.flatnonzero(track.is_seen)
    for other in (*seen[seen < at][-1:].tolist(), *seen[seen > at][:1].tolist()):
        found |= _move_mask(masks[track.start + other], track.boxes[other], track.boxes[at])
    return found


def _move_mask(mask: np.ndarray, box: np.ndarray, to: np.ndarray) -> np.ndarray:
    """(H, W) bool: what a mask holds in and around a box, moved as the box is to another."""
    margin = _BOX * max(box[2] - box[0], box[3] - box[1])
    low, high = np.floor(box[:2] - margin), np.ceil(box[2:] + margin)
    (left, top), (right, bottom) = (
        np.clip(each, 0, mask.shape[::-1]).astype(int).tolist() for each in (low, high)
    )
    part = np.zeros(mask.shape, np.uint8)
    part[top:bottom, left:right] = mask[top:bottom, left:right]
    across, down = (to[:2] + to[2:] - box[:2] - box[2:]) / 2
    way = np.array([[1, 0, across], [0, 1, down]], np.float32)
    return np.asarray(cv2.warpAffine(part, way, mask.shape[::-1], flags=cv2.INTER_NEAREST) > 0)


def render_limbs(
    joints: np.ndarray, size: tuple[int, int], *, trusted: float = _MIN_LIMB_TRUST
) -> np.ndarray:
    """(H, W) bool: thick limbs along joints (33, 4) that are trusted more than that."""
    canvas = np.zeros(size, np.uint8)
    places, trust = joints[:, :2], joints[:, 2]
    middle = places[list(_TORSO)].reshape(2, 2, 2).mean(axis=1)
    torso = max(2.0, float(np.linalg.norm(middle[0] - middle[1])))
    spots = np.rint(places.clip(-4 * max(size), 4 * max(size))).astype(int)
    for one, other in _LIMBS:
        if min(trust[one], trust[other]) > trusted:
            width = max(1, round(_THICK * torso))
            cv2.line(canvas, spots[one].tolist(), spots[other].tolist(), 1, width)
    if trust[list(_TORSO)].min() > trusted:
        cv2.fillConvexPoly(canvas, cv2.convexHull(spots[list(_TORSO)]), 1)
    if trust[0] > trusted:
        cv2.circle(canvas, spots[0].tolist(), max(1, round(_HEAD * torso)), 1, -1)
    return canvas.astype(bool)


def steady_mask(masks: MaskSpool, number: int, *, reach: int) -> np.ndarray:
    """(H, W) bool: the mask of a frame without flicker.

    Args:
        masks: of all frames.
        number: of the frame.
        reach: frames before and after that fill a gap which lies between them.
    """
    now, last = masks[number], len(masks) - 1
    before, after = np.zeros_like(now), np.zeros_like(now)
    for away in range(1, reach + 1):
        if number - away >= 0:
            before |= masks[number - away]
            now = now | before if away == 1 else now
        if number + away <= last:
            after |= masks[number + away]
            now = now | after if away == 1 else now
    return np.asarray(now | (before & after))


def find_touching_changes(
    mask: np.ndarray, frame: np.ndarray, place: np.ndarray, weight: np.ndarray, *, by_px: int
) -> np.ndarray:
    """(H, W) bool: what differs from the place behind, and lies within ``by_px`` of the mask.

    Args:
        mask: (H, W) bool, people.
        frame: (H, W, 3) uint8.
        place: of the same shape, what is behind.
        weight: (H, W), how many frames say so.
        by_px: how near a difference must come to somebody; all of it counts then.
    """
    return select_touching(find_changes(frame, place, weight, by_px=by_px), grow_mask(mask, by_px))


def find_changes(
    frame: np.ndarray, place: np.ndarray, weight: np.ndarray, *, by_px: int
) -> np.ndarray:
    """(H, W) bool: what differs from the place behind; as in `find_touching_changes`."""
    red, green, blue = cv2.split(cv2.absdiff(frame, place))
    apart = cv2.compare(cv2.max(cv2.max(red, green), blue), _APART, cv2.CMP_GT)
    apart = cv2.bitwise_and(apart, cv2.compare(weight, _KNOWN, cv2.CMP_GE))
    apart = cv2.morphologyEx(apart, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    side = 2 * max(1, by_px) + 1  # parts of one thing that are so near belong together
    return np.asarray(cv2.morphologyEx(apart, cv2.MORPH_CLOSE, np.ones((side, side), np.uint8)) > 0)
