"""What an attacker knows people by: face, body, gait, outline, worn sensors; and what cues keep.

How somebody moves, as worn sensors feel it: spectra of short windows.

What a cue sees in a recording, kept in the private cache by what the cue was shown.

What a whole body looks like: clothes, hair, skin, build.

What a face looks like to a network that tells people apart.

How somebody moves: joints over time, in metres, whichever way the camera looks.

Lengths of limbs, the size and rhythm of steps and of swinging arms, and how joints bend.

The outline of a person over time: the gait energy image [han2006].

Masks come from the network that finds joints. Where it finds nobody, what moves before a still
background is taken for the person, since that is left even where every picture is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np

from masquerade._optional import lazy_module
from masquerade.attacks.attack import Recording
from masquerade.attacks.known_people import (
    PoseSearch,
    SeenBody,
    frames_of,
    read_true_body,
    read_true_joints,
    some_of,
)
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.recordings import Photo, Signal, Video
from masquerade.vision import embedding_cache
from masquerade.vision.body_features import BodyFeatures, ColourLayout
from masquerade.vision.face_detector import FaceDetector, OutputLayout, load_detector
from masquerade.vision.face_recogniser import FaceRecogniser
from masquerade.vision.tracks import track_poses

cv2 = lazy_module("cv2", extra="vision")


class NetworkCue(Protocol):
    """A cue that asks networks."""

    NETWORKS: ClassVar[tuple[str, ...]]
    """Assets that it looks with."""
    VERSION: ClassVar[int]
    """Another one where the same networks would give other rows."""

    @property
    def is_told(self) -> bool:
        """Whether it reads labels of bodies."""

    def __call__(self, recording: Recording, /) -> np.ndarray:
        """(K, D): one row a look."""


@dataclass(frozen=True)
class CachedCue:
    """A cue that looks at a recording once; the next attack on it finds the rows in the cache."""

    cue: NetworkCue

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D), as the cue gives them."""
        return embedding_cache.read_or_make(
            _list_cue_inputs(recording, is_told=self.cue.is_told),
            fingerprint=self._cue_fingerprint,
            make=lambda: self.cue(recording),
        )

    @cached_property
    def _cue_fingerprint(self) -> str:
        hashes = [downloads.find_asset(name).sha256 for name in self.cue.NETWORKS]
        return f"{type(self.cue).__name__} {self.cue.VERSION} {self.cue.is_told} {hashes}"


def _list_cue_inputs(recording: Recording, *, is_told: bool) -> tuple[np.ndarray, ...]:
    """All that a cue reads of a recording."""
    match recording:
        case Video():
            seen = [recording.frames, np.array(recording.rate_hz)]
            told = [recording.joints, recording.joints_3d, recording.person_mask]
        case Photo():
            seen, told = [recording.image], [recording.joints]
        case Signal():
            return recording.values, np.array(recording.rate_hz)
    known = [np.zeros(0) if each is None else each for each in told]
    return (*seen, *known) if is_told else tuple(seen)


_BODY_FRAMES = 4  # of a film that are looked at


@dataclass(frozen=True, kw_only=True)
class BodyCue:
    """Pictures of bodies as rows: features of a network, and colours from head to foot.

    Args:
        is_told: whether the labels say where the body is.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = (
        "pose_detection",
        "pose_landmark_full",
        "efficientnet_lite0",
    )
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)
    network: BodyFeatures = field(default_factory=BodyFeatures)
    colours: ColourLayout = field(default_factory=ColourLayout)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D): one row a frame in which somebody is seen."""
        frames = frames_of(recording, by="body")
        numbers = some_of(len(frames), most=_BODY_FRAMES)
        rows = [
            self._describe_body(frames[number], body)
            for number in numbers
            if (body := self._find_body(recording, frames, number)) is not None
        ]
        return np.array(rows) if rows else np.zeros((0, 1))

    def _find_body(self, recording: Recording, frames: np.ndarray, number: int) -> SeenBody | None:
        if self.is_told:
            return read_true_body(recording, number)
        return self.search.find_nearest(frames[number])

    def _describe_body(self, frame: np.ndarray, body: SeenBody) -> np.ndarray:
        box, mask = body.box[None], body.mask[None]
        return np.concatenate(
            [eye.embed(frame, box, mask)[0] for eye in (self.network, self.colours)]
        )


_FACE_FRAMES = 4  # of a film that are looked at
_MIN_FACE_SCORE = 0.3  # the least of a face
_NUM_COCO_JOINTS = 17  # joints, of which the first five are of the head
_MIN_FACE_PX = 8


@dataclass(frozen=True, kw_only=True)
class FaceCue:
    """Faces as rows of 128 numbers.

    Args:
        is_told: whether the labels say where the face is.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("centerface", "dlib_face_points", "dlib_face_resnet")
    VERSION: ClassVar[int] = 1

    is_told: bool
    recogniser: FaceRecogniser = field(default_factory=FaceRecogniser)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, 128): one row a frame in which a face is seen, of the largest."""
        frames = frames_of(recording, by="face")
        numbers = some_of(len(frames), most=_FACE_FRAMES)
        told = read_true_joints(recording) if self.is_told else None
        rows = []
        for number in numbers:
            boxes = (
                self._find_face(frames[number])
                if told is None
                else _find_labelled_face(told[number])
            )
            rows.append(self.recogniser.embed(frames[number], boxes))
        return np.concatenate(rows)

    def _find_face(self, frame: np.ndarray) -> np.ndarray:
        """(1, 4) the largest face, or (0, 4)."""
        found = self._face_detector(frame)[:, :4]
        found = found[np.min(found[:, 2:] - found[:, :2], axis=1) >= _MIN_FACE_PX]
        areas = np.prod(found[:, 2:] - found[:, :2], axis=1)
        return np.asarray(found[np.argsort(-areas)[:1]])

    @cached_property
    def _face_detector(self) -> FaceDetector:
        network = downloads.fetch_asset("centerface")
        return load_detector(
            network, layout=OutputLayout.CENTERFACE, thresh=_MIN_FACE_SCORE, height=None
        )


def _find_labelled_face(joints: np.ndarray) -> np.ndarray:
    """(1, 4) the square about nose, eyes and ears (17, 2), or (0, 4) where they are not known."""
    if len(joints) != _NUM_COCO_JOINTS:
        raise BadInput(
            f"Expected the 17 joints of COCO where joints=truth, got {len(joints)}; give "
            "--joints estimated, or a data set with them."
        )
    head = joints[:5]
    if not np.all(np.isfinite(head)):
        return np.zeros((0, 4))
    middle = head[:3].mean(axis=0)
    reach = max(float(np.ptp(head, axis=0).max()) * 0.7, _MIN_FACE_PX / 2)
    return np.concatenate([middle - reach, middle + reach])[None]


MIN_TRACK_S, MIN_TRACK_FRAMES = 1.0, 8  # of a track, for a gait to be seen
_BLAZE_JOINTS = (0, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
_COCO_JOINTS = (0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
# Of those: nose, shoulders, elbows, wrists, hips, knees, ankles, left before right.
_LIMBS = ((1, 3), (2, 4), (3, 5), (4, 6), (7, 9), (8, 10), (9, 11), (10, 12), (1, 2), (7, 8))
_BENDS = (
    (1, 3, 5),
    (2, 4, 6),
    (7, 9, 11),
    (8, 10, 12),
    (1, 7, 9),
    (2, 8, 10),
    (7, 1, 3),
    (8, 2, 4),
)
_SWINGING_PAIRS = (
    (11, 12),
    (5, 6),
    (9, 10),
    (3, 4),
)  # left and right that swing against each other
_GAIT_BANDS_HZ = np.array([0.3, 0.8, 1.3, 1.9, 2.6, 3.6, 5.0])
_MIN_GAIT_POWER = 1e-4


@dataclass(frozen=True, kw_only=True)
class GaitCue:
    """A film as one row of what its main person's joints do.

    Args:
        is_told: whether joints are the labels', an upper bound of what eyes can see.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("pose_detection", "pose_landmark_full")
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(1, D), or (0, D) where nobody is followed for long enough."""
        film = _require_film(recording)
        joints = _stack_true_joints(film) if self.is_told else self._follow_person(film)
        if len(joints) < max(MIN_TRACK_FRAMES, MIN_TRACK_S * film.rate_hz):
            return np.zeros((0, len(describe_gait(np.zeros((8, 13, 3)), 1.0))))
        return describe_gait(joints, film.rate_hz)[None]

    def _follow_person(self, film: Video) -> np.ndarray:
        """(T, 13, 3) of the person who is seen longest."""
        tracks = track_poses(self.search.find_people(frame) for frame in film.frames)
        longest = max(tracks, key=lambda track: int(track.is_seen.sum()), default=None)
        return np.zeros((0, 13, 3)) if longest is None else longest.world[:, _BLAZE_JOINTS]


def describe_gait(joints: np.ndarray, rate_hz: float) -> np.ndarray:
    """(D,) numbers on joints (T, 13, 3), metres to the right, down and away."""
    lengths = [np.median(_measure_length(joints[:, a] - joints[:, b])) for a, b in _LIMBS]
    neck, hips = joints[:, 1:3].mean(axis=1), joints[:, 7:9].mean(axis=1)
    spine = neck - hips
    lengths += [np.median(_measure_length(spine)), np.median(_measure_length(joints[:, 0] - neck))]
    bends = np.stack([_measure_angle(joints, *each) for each in _BENDS], axis=1)  # (T, 8)
    apart = np.stack(
        [_measure_length(joints[:, a] - joints[:, b]) for a, b in _SWINGING_PAIRS], axis=1
    )
    lean = np.arccos(
        np.clip(-spine[:, 1] / np.maximum(_measure_length(spine), _MIN_GAIT_POWER), -1, 1)
    )
    heights = joints[:, [11, 12, 5, 6], 1] - hips[:, 1:2]
    moves = np.column_stack([bends, apart, lean, heights])
    low, high = np.percentile(moves, [10, 90], axis=0)
    logs = np.log(np.maximum(lengths, _MIN_GAIT_POWER))
    return np.concatenate(
        [logs, logs - logs.mean(), moves.mean(axis=0), high - low, _measure_bands(moves, rate_hz)]
    )


def _measure_bands(moves: np.ndarray, rate_hz: float) -> np.ndarray:
    """How much of each movement (T, M) is how fast, in logarithms, and how fast on average."""
    swing = (moves - moves.mean(axis=0)) * np.hanning(len(moves))[:, None]
    power = np.abs(np.fft.rfft(swing, n=max(64, len(moves)), axis=0)) ** 2
    at_hz = np.fft.rfftfreq(max(64, len(moves)), 1 / rate_hz)
    sums = [
        power[(at_hz >= low) & (at_hz < high)].sum(axis=0) for low, high in pairwise(_GAIT_BANDS_HZ)
    ]
    whole = power.sum(axis=0) + _MIN_GAIT_POWER
    speed = at_hz @ power / whole
    shares = np.log(np.array(sums) / whole + 1e-2)  # (bands, M)
    return np.concatenate([shares.mean(axis=1), shares[:, :12].ravel(), speed])


def _measure_length(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(vectors, axis=-1))


def _measure_angle(joints: np.ndarray, a: int, b: int, c: int) -> np.ndarray:
    """(T,) at joint b, between a and c, in radians."""
    one, other = joints[:, a] - joints[:, b], joints[:, c] - joints[:, b]
    size = np.maximum(_measure_length(one) * _measure_length(other), _MIN_GAIT_POWER**2)
    return np.asarray(np.arccos(np.clip(np.sum(one * other, axis=1) / size, -1, 1)))


def _require_film(recording: Recording) -> Video:
    if not isinstance(recording, Video):
        raise BadInput("Expected films where by=gait; use --by face or --by body for photos.")
    count = len(recording.frames)
    if count < max(MIN_TRACK_FRAMES, MIN_TRACK_S * recording.rate_hz):
        raise BadInput(
            f"Expected films of at least {MIN_TRACK_S:g} s and {MIN_TRACK_FRAMES} frames where "
            "by=gait, "
            f"got one of {count} frames at {recording.rate_hz:g} Hz; give longer ones."
        )
    return recording


def _stack_true_joints(film: Video) -> np.ndarray:
    """(T, 13, 3) of the labels, as right, down, away."""
    joints = film.joints_3d
    if joints is None or joints.shape[1] != 17 or not np.all(np.isfinite(joints)):
        raise BadInput(
            "Expected recordings with the 17 joints of COCO in metres where joints=truth, got one "
            "without; use --joints estimated."
        )
    x, y, up = np.moveaxis(joints[:, _COCO_JOINTS].astype(float), 2, 0)
    return np.stack([x, -up, y], axis=2)


_SILHOUETTE_SIZE = (32, 24)  # height and width of an image
_SILHOUETTE_FRAMES = 32  # of a film that are looked at
_MIN_PERSON_SHARE, _MAX_PERSON_SHARE = 0.004, 0.6  # of a frame that a person may cover
_MIN_CHANGE = 20  # of 255: what differs less from the background stands still
_MIN_MOTION_RATIO = 6.0  # times the usual change: what flickers everywhere is no motion
_MIN_SILHOUETTE_FRAMES = 4


@dataclass(frozen=True, kw_only=True)
class SilhouetteCue:
    """The mean outline of a person as one row.

    Args:
        is_told: whether outlines are the labels' masks.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("pose_detection", "pose_landmark_full")
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(1, D), or (0, D) where nobody is seen in enough frames."""
        if not isinstance(recording, Video) or len(recording.frames) < _MIN_SILHOUETTE_FRAMES:
            raise BadInput(
                f"Expected films of at least {_MIN_SILHOUETTE_FRAMES} frames where by=silhouette; "
                "use "
                "--by face or --by body for photos."
            )
        every = max(1, len(recording.frames) // _SILHOUETTE_FRAMES)
        masks = (
            self._list_true_outlines(recording, every)
            if self.is_told
            else self._list_seen_outlines(recording, every)
        )
        outlines = [one for mask in masks if (one := _scale_silhouette(mask)) is not None]
        if len(outlines) < min(_MIN_SILHOUETTE_FRAMES, len(masks)):
            return np.zeros((0, _SILHOUETTE_SIZE[0] * _SILHOUETTE_SIZE[1]))
        return np.asarray(np.mean(outlines, axis=0).reshape(1, -1))

    def _list_true_outlines(self, film: Video, every: int) -> np.ndarray:
        if film.person_mask is None:
            raise BadInput(
                "Expected recordings with masks where joints=truth, got one without; use --joints "
                "estimated."
            )
        return film.person_mask[::every]

    def _list_seen_outlines(self, film: Video, every: int) -> np.ndarray:
        frames = film.frames[::every]
        bodies = [self.search.find_nearest(frame) for frame in frames]
        if sum(body is not None for body in bodies) * 2 < len(frames):
            return find_moving_mask(frames)
        return np.stack([body.mask > 0.5 for body in bodies if body is not None])


def find_moving_mask(frames: np.ndarray) -> np.ndarray:
    """(T, H, W) bool: the largest thing in each frame that moves before a still background."""
    still = np.median(frames, axis=0)
    change = np.abs(frames - still).max(axis=3)  # (T, H, W)
    moves = change > max(_MIN_CHANGE, _MIN_MOTION_RATIO * float(np.median(change)))
    around = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    return np.stack(
        [
            _find_largest_part(cv2.morphologyEx(np.uint8(each), cv2.MORPH_CLOSE, around))
            for each in moves
        ]
    )


def _find_largest_part(mask: np.ndarray) -> np.ndarray:
    """The largest part of a mask that hangs together."""
    count, parts, facts, _ = cv2.connectedComponentsWithStats(mask)
    if count < 2:
        return mask > 0
    return np.asarray(parts == 1 + int(np.argmax(facts[1:, cv2.CC_STAT_AREA])))


def _scale_silhouette(mask: np.ndarray) -> np.ndarray | None:
    """The person of a mask, as high as an image and in its middle; None where nobody is."""
    if not _MIN_PERSON_SHARE <= mask.mean() <= _MAX_PERSON_SHARE:
        return None
    rows, columns = np.nonzero(mask)
    top, bottom = int(rows.min()), int(rows.max()) + 1
    scale = _SILHOUETTE_SIZE[0] / (bottom - top)
    shift = np.array(
        [[scale, 0, _SILHOUETTE_SIZE[1] / 2 - scale * columns.mean()], [0, scale, -scale * top]]
    )
    return np.asarray(
        cv2.warpAffine(np.float32(mask), shift, _SILHOUETTE_SIZE[::-1], flags=cv2.INTER_AREA)
    )


_WINDOW_S = 4.0
_WORN_BANDS_HZ = np.array([0.3, 0.7, 1.1, 1.6, 2.2, 3.0, 4.0, 5.5, 7.5, 10.0, 14.0, 20.0])
_MIN_WINDOW_SAMPLES = 16
_MIN_WORN_POWER = 1e-6  # of a power, added before its logarithm


class WornCue:
    """Windows of a signal as rows: means, spreads and powers in bands of each channel."""

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D): one row a window; windows overlap by half."""
        if not isinstance(recording, Signal):
            raise BadInput(
                f"Expected signals where by=worn, got a {type(recording).__name__.lower()}; choose "
                "the data set's signals (--kind signals)."
            )
        values = recording.values.astype(float)
        if len(values) < _MIN_WINDOW_SAMPLES:
            raise BadInput(
                f"Expected signals of at least {_MIN_WINDOW_SAMPLES} samples, got one of "
                f"{len(values)}."
            )
        size = min(len(values), max(_MIN_WINDOW_SAMPLES, round(_WINDOW_S * recording.rate_hz)))
        starts = range(0, len(values) - size + 1, max(1, size // 2))
        return np.stack(
            [_describe_window(values[at : at + size], recording.rate_hz) for at in starts]
        )


def _describe_window(window: np.ndarray, rate_hz: float) -> np.ndarray:
    """What one window (T, C) is like."""
    triples = window[:, : window.shape[1] // 3 * 3].reshape(len(window), -1, 3)
    strength = np.linalg.norm(triples, axis=2)  # whichever way the sensor sits on the limb
    every = np.concatenate([window, strength], axis=1)
    moved = every - every.mean(axis=0)
    power = np.abs(np.fft.rfft(moved * np.hanning(len(moved))[:, None], axis=0)) ** 2
    at_hz = np.fft.rfftfreq(len(moved), 1 / rate_hz)
    edges = _WORN_BANDS_HZ[_WORN_BANDS_HZ < rate_hz / 2]
    bands = [
        power[(at_hz >= low) & (at_hz < high)].sum(axis=0) / len(moved)
        for low, high in pairwise(edges)
    ]
    shares = np.log(np.array(bands) + _MIN_WORN_POWER) if bands else np.zeros((0, every.shape[1]))
    spread = moved.std(axis=0)
    unit = moved / np.maximum(spread, _MIN_WORN_POWER)
    together = (unit.T @ unit / len(unit))[np.triu_indices(unit.shape[1], 1)]
    return np.concatenate([every.mean(axis=0), spread, shares.ravel(), together])
