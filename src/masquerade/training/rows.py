"""What a run learns from: rows of inputs, and which rows belong to which protected unit.

Videos as rows: their views and segments, as a network wants to see them.

Photos of people as rows: a crop around each person, and where the joints are in it.

The crop follows from the record's own box and nothing else; a public one is cut out of psi of the
whole photo, so that no number of boxes shows more than that. A photo of which no joint is known, or
all are outside the crop, adds exactly nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, torch
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.networks import picture_crops
from masquerade.networks.network import Network
from masquerade.recordings import Photo, Video
from masquerade.training import views
from masquerade.training.method import Method
from masquerade.training.methods import Featured
from masquerade.training.units import classes_of, hide_private_names
from masquerade.training.views import PrivateSide, PublicPictures

if TYPE_CHECKING:
    from masquerade.networks import tiny_vit_pose
    from masquerade.networks import tiny_vit_pose as simcc
else:
    simcc = lazy_module("masquerade.networks.tiny_vit_pose", extra="train")
    tiny_vit_pose = lazy_module("masquerade.networks.tiny_vit_pose", extra="train")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Inputs of the trainable part, one row a stretch of a recording.

    Or films, with the frozen trunk that comes first: then it runs again at every step, which takes
    longer and needs no room for what it gives.

    Args:
        private: (R, ...) what only clipped and noised gradients may see.
        public: (R, ...) what everyone may see, or None.
        targets: (R,) the class of each row, or (R, J, 3) where its joints are.
        slots: (U, k) rows of each protected unit; -1 where it has fewer.
        trunk: what is frozen and comes first; None where the rows are its output.
        guide: public records, each a unit of its own, by which a subspace is found; or None.
    """

    private: torch.Tensor
    public: torch.Tensor | None
    targets: torch.Tensor
    slots: np.ndarray
    trunk: torch.nn.Module | None = None
    guide: Rows | None = None

    def __post_init__(self) -> None:
        _check.shape("U K", slots=self.slots)
        if len(self.private) != len(self.targets):
            raise ValueError(
                f"Expected a target for each of {len(self.private)} rows, got {len(self.targets)}."
            )
        if self.public is not None and self.public.shape != self.private.shape:
            raise ValueError(
                f"Expected public and private rows of one shape, got {tuple(self.public.shape)} "
                f"and {tuple(self.private.shape)}."
            )
        used = self.slots[self.slots >= 0]
        if len(used) != len(np.unique(used)):
            raise ValueError("Expected each row to belong to one unit, got a row in two.")

    @property
    def num_units(self) -> int:
        """How many are protected, each as a whole."""
        return len(self.slots)


def slots_of(owners: Sequence[Hashable], *, segments: int, most: int) -> np.ndarray:
    """(U, k): the rows of each owner's first ``most`` recordings; k is what the largest needs.

    Args:
        owners: of each recording; its own number where recordings are protected one by one.
        segments: rows of a recording, one after the other.
        most: recordings of one owner that are used; a rule that looks at that owner alone.

    Example:
        >>> slots_of(["a", "b", "a"], segments=2, most=2)
        array([[ 0,  1,  4,  5],
               [ 2,  3, -1, -1]])
    """
    _check.count(segments=segments, most=most)
    if not len(owners):
        raise BadInput("Expected at least one recording to learn from, got none.")
    held: dict[Hashable, list[int]] = {}
    for recording, owner in enumerate(owners):
        held.setdefault(owner, []).append(recording)
    most = min(most, max(map(len, held.values())))
    found = np.full((len(held), most * segments), -1)
    for unit, recordings in enumerate(held.values()):
        rows = [r * segments + s for r in recordings[:most] for s in range(segments)]
        found[unit, : len(rows)] = rows
    return found


class RowPicks(NamedTuple):
    """Which rows some units have, sent to where the targets are; all at once, as it waits."""

    here: torch.Tensor  # (B, k) rows, on the processor
    there: torch.Tensor  # (B, k) the same, where the targets are
    shares: torch.Tensor  # (B, k) of a unit's rows in its loss: they add up to 1, or all are 0
    present: torch.Tensor  # (B,) whether it is a unit, and not nobody
    is_empty: torch.Tensor  # (B,) whether it has no row at all

    def slice_units(self, start: int, size: int) -> RowPicks:
        """Some units of them."""
        return RowPicks(*(each[start : start + size] for each in self))


def pick_rows(rows: Rows, units: np.ndarray) -> RowPicks:
    """The rows of some units; -1 is nobody."""
    slots = np.where((units >= 0)[:, None], rows.slots[np.maximum(units, 0)], -1)
    is_real = slots >= 0
    count = np.maximum(is_real.sum(axis=1, keepdims=True), 1)
    first = np.take_along_axis(slots, is_real.argmax(axis=1, keepdims=True), axis=1)
    own = np.where(is_real, slots, first)  # filled up with the unit's own, never another's
    index, device = np.maximum(own, 0), rows.targets.device
    shares = (is_real / count).astype(np.float32)
    is_empty = np.logical_not(is_real.any(axis=1))
    sent = [_send_array(np.asarray(each), device) for each in (index, shares, units >= 0, is_empty)]
    return RowPicks(torch.from_numpy(index), *sent)


def take_rows(
    rows: Rows, picks: RowPicks, *, is_public: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (B, k, ...) and targets (B, k, ...) of picked units.

    Rows are picked where they lie, and what was picked goes to where the targets are. Nobody, and a
    unit without any row, is all zeros.
    """
    view = rows.public if is_public else rows.private
    if view is None:
        raise ValueError("Expected rows with a public view, got none.")
    device = rows.targets.device
    inputs = view[picks.there] if view.device == device else view[picks.here].to(device)
    empty = picks.is_empty[:, None]
    targets = rows.targets[picks.there]
    for each in (inputs, targets):
        each.masked_fill_(empty.reshape(-1, *[1] * (each.dim() - 1)), 0)
    return inputs, targets


def gather_rows(
    rows: Rows, units: np.ndarray, *, is_public: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs (B, k, ...), targets (B, k) and shares (B, k) of some units; -1 is nobody.

    The shares of a unit add up to 1; rows that only fill up have share 0. Nobody, and a unit
    without any row, is all zeros: inputs, targets and shares.
    """
    picks = pick_rows(rows, units)
    return *take_rows(rows, picks, is_public=is_public), picks.shares


def is_unknown(targets: np.ndarray) -> np.ndarray:
    """(R,): rows that add nothing: a class below 0, or joints (R, J, 3) of which none counts."""
    return np.asarray(targets < 0 if targets.ndim == 1 else ~(targets[..., 2] > 0).any(axis=1))


def _send_array(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """The array on the device; nobody waits until it is there."""
    held = torch.from_numpy(array)
    return held.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else held


_BATCH_FILMS = 8


class FilmReader:
    """Turns private videos into what a network's trunk is given, one at a time.

    Args:
        method: which of their pixels are public, and how many segments are taken.
        network: that sees them.
        classes: the public list.
    """

    def __init__(self, method: Method, network: Network, classes: Sequence[str]) -> None:
        self.method, self._network, self._classes = method, network, classes
        self._private = PrivateSide(getattr(method, "private", PrivateSide.BACKGROUND.value))
        self._masks: list[Any] = []
        self._known: dict[bytes, bytes] = {}
        self.shown = PublicPictures() if isinstance(method, Featured) else None

    def make_training_rows(self, recording: Any) -> tuple[dict[str, Any], list[int]]:
        """Its segments in each view, and their classes."""
        video = video_of(recording)
        shown = {"private": self._cut_segments(video.frames)}
        if isinstance(self.method, Featured) and self.shown is not None:
            shown["public"] = self.shown.add_pictures(self.method.make_psi(), shown["private"])
            if not self.method.HAS_PRIVATE:
                shown["private"] = shown["public"]
        elif self.method.HAS_PUBLIC:
            shown = self._make_sides(video)
            self._masks.append(video.person_mask)
            _refuse_two_masks(video, self._known)
        with hide_private_names():
            target = _find_class_index(video, self._classes)
        seen = {view: self._network.prepare(films) for view, films in shown.items()}
        return seen, [target] * self.method.segments

    def _make_sides(self, video: Video) -> dict[str, np.ndarray]:
        """Segments of what the private and the public gradient see.

        Whole recordings, or what is private and nothing else: all that is hidden from the public
        side comes from the mask, and everything that is not is grey.
        """
        frames, side = self._cut_segments(video.frames), self.method.private_side
        covered = self._cut_segments(views.find_hidden_pixels(video, self._private))
        if side == "tokens":
            covered = np.stack([views.in_tokens(one, self._network.tokens) for one in covered])
        public = views.on_grey(frames, ~covered)
        if not self.method.HAS_PRIVATE:
            return {"private": public, "public": public}
        private = frames if side == "whole" else views.on_grey(frames, covered)
        return {"private": private, "public": public}

    def _cut_segments(self, frames: np.ndarray) -> np.ndarray:
        return views.spread_segments(
            frames, count=self.method.segments, length=self._network.length
        )

    @property
    def mask_sha256(self) -> str | None:
        """Fingerprint of the masks so far, where they are used."""
        return views.hash_masks(self._masks) if self._masks else None


def guess_actions(
    net: Any,
    network: Network,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """What a network says of every recording's middle segment, and what is right."""
    device = next(net.parameters()).device
    found: list[int] = []
    right: list[int] = []
    held: list[Any] = []
    for index, (film, target) in enumerate(_films_of(collection, network)):
        held.append(film)
        right.append(target)
        if len(held) == _BATCH_FILMS or index + 1 == len(collection):
            with torch.no_grad():
                found += net(torch.cat(held).to(device)).argmax(dim=1).tolist()
            held.clear()
        progress(index + 1, len(collection))
    if not right:
        raise BadInput("Expected at least one recording to test on, got none.")
    return np.array(found), np.array(right)


def _films_of(collection: Collection[Any], network: Network) -> Iterator[tuple[Any, int]]:
    names = classes_of(collection)
    for index in range(len(collection)):
        video = video_of(collection[index])
        cut = views.spread_segments(video.frames, count=1, length=network.length)
        yield network.prepare(cut), _find_class_index(video, names)


def video_of(recording: Any) -> Video:
    """A recording that must be a video."""
    if not isinstance(recording, Video):
        raise BadInput(f"Expected videos to learn from, got {type(recording).__name__}s.")
    return recording


def _refuse_two_masks(video: Video, known: dict[bytes, bytes]) -> None:
    """A recording that is listed twice has one mask: two could together show all of it."""
    content = hashlib.sha256(repr(video.frames.shape).encode())
    content.update(video.frames.tobytes())
    found = views.hash_mask_source(video)
    if known.setdefault(content.digest(), found) != found:
        raise BadInput(
            "Expected one mask with a recording that is listed twice, got two: what is private "
            "under one would be used without noise under the other. List it once."
        )


def _find_class_index(video: Video, names: Sequence[str]) -> int:
    if video.activity not in names:
        raise BadInput("Expected an activity of the list with every recording, got another.")
    return names.index(video.activity)


_BATCH_POSES = 16


class PoseReader:
    """Turns private photos into what a network's trunk is given, one at a time.

    Args:
        method: how they are learned from.
        names: of the joints; the public list.
    """

    mask_sha256 = None  # nothing of a photo is public by a mask

    def __init__(self, method: Method, names: Sequence[str]) -> None:
        self.method, self._names = method, names
        self.shown = PublicPictures() if isinstance(method, Featured) else None

    def make_training_rows(self, recording: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Its crop, and where the joints are in it."""
        with hide_private_names():
            photo = photo_of(recording)
            crop, target = make_training_pair(photo, len(self._names))
        seen = {"private": picture_crops.make_crop_inputs(crop[None])}
        if isinstance(self.method, Featured) and self.shown is not None:
            region = picture_crops.find_crop_region(photo.image, photo.box)
            whole = self.shown.add_pictures(self.method.make_psi(), photo.image, cut=repr(region))
            seen["public"] = picture_crops.make_crop_inputs(
                picture_crops.crop_pose(whole, region)[None]
            )
            if not self.method.HAS_PRIVATE:
                seen["private"] = seen["public"]
        return seen, [target]


def make_training_pair(photo: Photo, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A photo's crop (256, 192, 3) uint8, and targets (J, 3).

    Raises:
        BadInput: if it has another number of joints.
    """
    if photo.joints is not None and len(photo.joints) != count:
        raise BadInput(f"Expected {count} joints with every photo, got {len(photo.joints)}.")
    region = picture_crops.find_crop_region(photo.image, photo.box)
    return picture_crops.crop_pose(photo.image, region), picture_crops.make_crop_targets(
        photo.joints, region, count
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundJoints:
    """What a network says of photos; N of them, J joints.

    Args:
        joints: (N, J, 2) in pixels of each photo.
        scores: (N, J) from 0 to 1.
    """

    joints: np.ndarray
    scores: np.ndarray


def find_joints(
    net: Any, photos: Sequence[tuple[np.ndarray, picture_crops.Box | None]], *, smoothing: float
) -> FoundJoints:
    """Where a network finds the joints of people in pictures, each in its box; flip test included.

    Args:
        net: that is asked.
        photos: pictures (H, W, 3) and boxes; the whole picture where there is none.
        smoothing: of the targets that it learned from.
    """
    device = next(net.parameters()).device
    regions = [picture_crops.find_crop_region(image, box) for image, box in photos]
    crops = [
        picture_crops.crop_pose(image, region)
        for (image, _), region in zip(photos, regions, strict=True)
    ]
    inputs = picture_crops.make_crop_inputs(np.stack(crops)).to(device)
    said = tiny_vit_pose.predict_joint_logits(net, inputs, is_flipped=True, batch=_BATCH_POSES)
    places = simcc.decode_joints(said.double(), smoothing=smoothing)
    joints = [
        region.map_back(one)
        for region, one in zip(regions, places.joints.cpu().numpy(), strict=True)
    ]
    return FoundJoints(joints=np.stack(joints), scores=places.scores.cpu().numpy())


def guess_joints(
    net: Any,
    network: Any,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None],
) -> tuple[FoundJoints, list[Photo]]:
    """What a network says of every photo, and the photos without their pictures."""
    found: list[FoundJoints] = []
    known: list[Photo] = []
    held: list[tuple[np.ndarray, picture_crops.Box | None]] = []
    nothing = np.zeros((1, 1, 3), np.uint8)
    for index in range(len(collection)):
        photo = photo_of(collection[index])
        held.append((photo.image, photo.box))
        known.append(_without_picture(photo, nothing))
        if len(held) == _BATCH_POSES or index + 1 == len(collection):
            found.append(find_joints(net, held, smoothing=network.smoothing))
            held.clear()
        progress(index + 1, len(collection))
    if not found:
        raise BadInput("Expected at least one photo to test on, got none.")
    joints, scores = (
        np.concatenate([getattr(each, name) for each in found]) for name in ("joints", "scores")
    )
    return FoundJoints(joints=joints, scores=scores), known


def _without_picture(photo: Photo, nothing: np.ndarray) -> Photo:
    return Photo(
        image=nothing,
        joints=photo.joints,
        visible=photo.visible,
        head_px=photo.head_px,
        box=photo.box,
        subject=photo.subject,
        attributes=photo.attributes,
    )


def photo_of(recording: Any) -> Photo:
    """A recording that must be a photo."""
    if not isinstance(recording, Photo):
        raise BadInput(f"Expected photos to learn from, got {type(recording).__name__}s.")
    return recording
