"""Photos as experiments see them: crops in memory, public pictures, and who is named by these.

Photos are private, public, or tested on. Whoever attacks public pictures knows some photos of
everybody by name, and is shown psi of others. He makes psi of his own photos too, so that both look
alike, and takes joints, which are public, to find the body.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from experiments.engine import Progress, hide_progress, run_parallel
from masquerade import joints
from masquerade._optional import require_extra
from masquerade.attacks.rates import bootstrap_figure, compute_hits
from masquerade.collection import Collection, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks import picture_crops
from masquerade.recordings import Photo
from masquerade.scores import MeasuredRate
from masquerade.training.rows import make_training_pair, photo_of
from masquerade.training.units import pixels_sha256
from masquerade.training.views import Psi

# --- albums: photos of a data set as crops

KEPT = "albums-"  # how the names of files with drawn photos begin
# 128 lines, as the public weights have seen people; twice the photos that are learned from are of
# the public and the test part
_WORLD: dict[str, Any] = {"photo_px": 128, "subjects": 84, "photos": 5_184}
_TAUGHT = ("train", "training")  # parts to learn from, the first there is
_TESTED = ("valid", "val", "validation", "test")  # parts with joints, the first there is
_LOOKED_AT = 100  # photos, for one that can be measured
_ARRAYS = ("crops", "targets", "joints", "head_px")


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonAlbum:
    """N people in photos, each cut out."""

    crops: np.ndarray  # (N, 256, 192, 3) uint8
    targets: np.ndarray  # (N, J, 3) joints in the crop, and whether each counts
    joints: np.ndarray  # (N, J, 2) in the photo; missing is NaN
    head_px: np.ndarray  # (N,); NaN where it is not known
    regions: tuple[picture_crops.CropRegion, ...]  # where each crop lies in its photo
    names: tuple[str, ...]  # of the joints
    prints: tuple[str, ...]  # fingerprints of the photos
    subjects: tuple[str, ...] = ()  # who is in each; empty where nobody has a name

    def __len__(self) -> int:
        return len(self.crops)

    def choose_photos(self, numbers: np.ndarray) -> PersonAlbum:
        """These of them."""
        arrays = {name: getattr(self, name)[numbers] for name in _ARRAYS}
        return replace(
            self,
            **arrays,
            regions=tuple(self.regions[number] for number in numbers),
            prints=tuple(self.prints[number] for number in numbers),
            subjects=tuple(self.subjects[number] for number in numbers if self.subjects),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PoseAlbums:
    """Photos that are private, public and tested on; nobody's photo is in two of them."""

    private: PersonAlbum
    public: PersonAlbum
    tested: PersonAlbum


def size_stage(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given; joints are MPII's."""
    missing = {name: value for name, value in _WORLD.items() if getattr(stage, name) is None}
    return replace(stage.select_kind(Medium.PHOTOS), **missing, joints="mpii")


def keep_albums(folder: Path, data: Collection[Any], **asked: Any) -> PoseAlbums:
    """As `read_albums`; those of Stage, whose people never lived, are kept in a file of the folder
    for the next call.
    """
    if not isinstance(data, Stage):
        return read_albums(data, **asked)
    known = repr((data, [asked[name] for name in ("most", "tested", "public")]))
    path = folder / f"{KEPT}{hashlib.sha256(known.encode()).hexdigest()[:16]}"
    if path.is_file():
        found: PoseAlbums = joblib.load(path)
        return found
    made = read_albums(data, **asked)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    joblib.dump(made, part)
    part.replace(path)
    return made


def read_albums(
    data: Collection[Any],
    *,
    most: int | None,
    tested: int | None,
    public: int,
    device: str = "cpu",
    progress: Progress = hide_progress,
) -> PoseAlbums:
    """Read the photos of a data set.

    Where there is no public part, the first photos of the training part are declared public, as the
    paper does, and no photo that shows one of them stays private.

    Args:
        data: of photos with joints.
        most: private ones, the first; all if None.
        tested: likewise.
        public: public ones.
        device: where Stage draws them.
        progress: how far it is.
    """
    photos = data.select_kind(Medium.PHOTOS)
    first, other = (
        next((n for n in some if n in photos.parts), None) for some in (_TAUGHT, _TESTED)
    )
    if first is None or other is None:
        raise BadInput(
            f"Expected photos with one of the parts {', '.join(_TAUGHT)} and one of "
            f"{', '.join(_TESTED)}, got {', '.join(photos.parts) or 'no parts'} of "
            f"{data.ABOUT.title}; choose another data set, or give a manifest a column split."
        )
    if not isinstance(photos, Stage):
        _check_measurable(photos.select_part(other))
    private = _read_album(photos.select_part(first), most, device, progress)
    exam = _read_album(photos.select_part(other), tested, device, progress)
    if "public" in photos.parts:
        aside = _read_album(photos.select_part("public"), public, device, progress)
        return PoseAlbums(private=private, public=aside, tested=exam)
    known = set(private.prints[:public])
    is_public = np.array([one in known for one in private.prints])
    if is_public.all():
        raise BadInput(
            f"Expected photos to learn from beside those of the first {public} people, which are "
            f"taken as public, got {len(private)} people in all; lower --public-records."
        )
    numbers = np.arange(len(private))
    return PoseAlbums(
        private=private.choose_photos(numbers[~is_public]),
        public=private.choose_photos(numbers[:public]),
        tested=exam,
    )


def read_first(
    data: Collection[Any], count: int, *, progress: Progress = hide_progress
) -> PersonAlbum:
    """The first photos to learn from, by themselves."""
    photos = data.select_kind(Medium.PHOTOS)
    part = photos.select_part(next(name for name in _TAUGHT if name in photos.parts))
    return _read_album(part, count, "cpu", progress)


def _check_measurable(photos: Collection[Any]) -> None:
    """PCKh measures by the size of the head: without any the tables would be empty."""
    count = min(len(photos), _LOOKED_AT)
    for photo in _read_each(photos, range(count)):
        if photo.joints is not None and photo.head_px:
            return
    raise BadInput(
        "Expected photos to test on with joints and the size of the head, by which PCKh measures, "
        f"got none among the first {count} of {photos.ABOUT.title}, {photos.part_name}; take "
        "--data stage, --data mpii --form json with its gt_valid.mat, or --data manifest with the "
        "columns joints and head_px."
    )


def _read_album(
    photos: Collection[Any], most: int | None, device: str, progress: Progress
) -> PersonAlbum:
    count, names = min(len(photos), most or len(photos)), photos.joint_names
    if not count:
        raise BadInput(
            f"Expected photos in the part {photos.part_name} of {photos.ABOUT.title}, got none; "
            "give more photos."
        )
    found: list[tuple[Any, ...]] = []
    some = _read_each(photos, range(count))
    if isinstance(photos, Stage):
        some = photos.make_photos(count, device=device)
    for photo in some:
        found.append(_cut_person(photo, len(names)))
        progress("reading", len(found), count)
    crops, targets, places, heads, regions, prints, subjects = zip(*found, strict=True)
    return PersonAlbum(
        crops=np.stack(crops),
        targets=np.stack(targets),
        joints=np.stack(places),
        head_px=np.array(heads),
        regions=regions,
        names=names,
        prints=prints,
        subjects=() if None in subjects else subjects,
    )


def _read_each(photos: Collection[Any], numbers: Iterable[int]) -> Iterator[Photo]:
    return (photo_of(photos[number]) for number in numbers)


def _cut_person(photo: Photo, count: int) -> tuple[Any, ...]:
    """A crop, its targets, joints and head in the photo, its region, a fingerprint, and who."""
    places = np.full((count, 2), np.nan) if photo.joints is None else photo.joints
    head_px = np.nan if photo.head_px is None else photo.head_px
    region = picture_crops.find_crop_region(photo.image, photo.box)
    return (
        *make_training_pair(photo, count),
        places,
        head_px,
        region,
        pixels_sha256(photo),
        photo.subject,
    )


# --- public pictures, and what of a person can still be read from them

PHOTOS = 320  # private ones, the first, that an attacker is shown and knows together
_TOGETHER = 64  # crops whose public pictures are made at once
_EACH = 8  # of one person, half of them known by name
_WIDER = 0.15  # of the joints' extent: heads and feet reach beyond them
_WIDTH = 0.08  # of a body's height: how broad limbs are taken to be
_SMALL = 1e-6
Attacker = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # picture, box, mask: a row


def make_public(crops: np.ndarray, psi: Psi, *, jobs: int = 1) -> np.ndarray:
    """Psi of crops (N, H, W, 3), some at a time."""
    parts = [crops[start : start + _TOGETHER] for start in range(0, len(crops), _TOGETHER)]
    calls = (partial(psi, part) for part in parts)
    return np.concatenate(list(run_parallel(calls, jobs=1 if len(parts) == 1 else jobs)))


def list_attackers() -> Mapping[str, Attacker]:
    """Attackers by name: colours in stripes from head to foot, more and fewer of them."""
    from masquerade.vision.body_features import ColourLayout  # only this looks at bodies

    return {f"colours in {n}": ColourLayout(stripes=n).embed for n in (3, 6, 12)}


def name_people(
    album: PersonAlbum, psi: Psi | None, *, attackers: Mapping[str, Attacker]
) -> MeasuredRate:
    """How often the nearest person is the right one, by the attacker who does best.

    Args:
        album: with the names of people.
        psi: what they are seen through; None for photos as they are.
        attackers: attackers.
    """
    known, asked = _halve_photos(album)
    numbers = np.concatenate([known, asked])
    seen = album.crops[numbers] if psi is None else psi(album.crops[numbers])
    places = [album.targets[number] for number in numbers]
    whose = np.array([album.subjects[number] for number in numbers])
    masks = [_draw_mask(place, album.names, seen.shape[1:3]) for place in places]
    found: list[MeasuredRate] = []
    for look in attackers.values():
        rows = np.array(
            [
                look(picture, _find_box(place), mask)[0]
                for picture, place, mask in zip(seen, places, masks, strict=True)
            ]
        )
        found.append(_match_people(rows[: len(known)], rows[len(known) :], whose, seed=len(found)))
    return max(found, key=lambda one: one.value)


def _match_people(
    known: np.ndarray, asked: np.ndarray, whose: np.ndarray, *, seed: int
) -> MeasuredRate:
    """By the nearest of the known photos of each person, in units of how features scatter."""
    scale = known.std(axis=0) + _SMALL
    names, owners = np.unique(whose[: len(known)]), whose[: len(known)]
    gaps = ((asked[:, None] - known[None]) / scale) ** 2  # (asked, known, features)
    apart = gaps.sum(axis=2)
    nearest = np.stack([apart[:, owners == name].min(axis=1) for name in names], axis=1)
    right = np.searchsorted(names, whose[len(known) :])
    is_right = compute_hits(nearest, right, among=1)
    return bootstrap_figure(
        "rank-1",
        lambda rows: float(is_right[rows].mean()),
        whose[len(known) :].tolist(),
        of="people",
        seed=seed,
        chance=1 / len(names),
    )


def _halve_photos(album: PersonAlbum) -> tuple[np.ndarray, np.ndarray]:
    """Photos of people of whom there are several: those known by name, and those asked for."""
    known, asked = list[int](), list[int]()
    for name in dict.fromkeys(album.subjects):
        own = [n for n, who in enumerate(album.subjects) if who == name][:_EACH]
        if len(own) > 1:
            known += own[::2]
            asked += own[1::2]
    if not asked:
        raise ValueError("Expected two photos of somebody with a name, got none.")
    return np.array(known), np.array(asked)


def _draw_mask(target: np.ndarray, names: Sequence[str], size: tuple[int, ...]) -> np.ndarray:
    """(1, H, W): the pixels near a line between two joints; all where there is none."""
    cv2 = require_extra("cv2", extra="vision")
    found = np.zeros(size, np.uint8)
    box = _find_box(target)[0]
    width = max(6, int(_WIDTH * (box[3] - box[1])))
    for one, two in joints.list_limbs(names):
        if target[one, 2] > 0 and target[two, 2] > 0:
            ends = ([round(float(place)) for place in target[joint, :2]] for joint in (one, two))
            cv2.line(found, *ends, 1, width)
    return (found if found.any() else np.ones_like(found))[None].astype(float)


def _find_box(target: np.ndarray) -> np.ndarray:
    """(1, 4): a little more than the joints that are in the crop."""
    is_there = target[:, 2] > 0
    places = target[is_there, :2] if is_there.any() else np.array([[0.0, 0.0], [192.0, 256.0]])
    low, high = places.min(axis=0), places.max(axis=0)
    more = _WIDER * np.maximum(high - low, 16.0)
    return np.concatenate([low - more, high + more])[None]
