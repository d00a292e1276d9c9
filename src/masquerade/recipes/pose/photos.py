"""Photos of a data set as crops in memory: those to learn from, public ones, those to test on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from joblib import delayed

from masquerade.collection import Collection, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks import picture_crops
from masquerade.recipes import bench
from masquerade.recordings import Photo
from masquerade.training.poses import photo_of, taught
from masquerade.training.units import pixels_sha256
from masquerade.training.views import Psi

# 128 lines, as the public weights have seen people; twice the photos that are learned from are of
# the public and the test part
_TAUGHT = ("train", "training")  # parts to learn from, the first there is
_TESTED = ("valid", "val", "validation", "test")  # parts with joints, the first there is
_TOGETHER = 64  # crops whose public pictures are made at once
_LOOKED_AT = 100  # photos, for one that can be measured
KEPT = "albums-"  # how the names of files with drawn photos begin
_WORLD: dict[str, Any] = {"photo_px": 128, "subjects": 84, "photos": 5_184}


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonAlbum:
    """N people in photos, each cut out.

    Args:
        crops: (N, 256, 192, 3) uint8.
        targets: (N, J, 3) joints in the crop, and whether each counts.
        joints: (N, J, 2) in the photo; missing is NaN.
        head_px: (N,); NaN where it is not known.
        regions: where each crop lies in its photo.
        names: of the joints.
        prints: fingerprints of the photos.
        subjects: who is in each; empty where nobody has a name.
    """

    crops: np.ndarray
    targets: np.ndarray
    joints: np.ndarray
    head_px: np.ndarray
    regions: tuple[picture_crops.CropRegion, ...]
    names: tuple[str, ...]
    prints: tuple[str, ...]
    subjects: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.crops)

    def some(self, numbers: np.ndarray) -> PersonAlbum:
        """These of them."""
        arrays = {name: getattr(self, name)[numbers] for name in _ARRAYS}
        return replace(
            self,
            **arrays,
            regions=tuple(self.regions[number] for number in numbers),
            prints=tuple(self.prints[number] for number in numbers),
            subjects=tuple(self.subjects[number] for number in numbers if self.subjects),
        )


_ARRAYS = ("crops", "targets", "joints", "head_px")


@dataclass(frozen=True, kw_only=True, eq=False)
class PoseAlbums:
    """Photos that are private, public and tested on; nobody's photo is in two of them."""

    private: PersonAlbum
    public: PersonAlbum
    tested: PersonAlbum


def sized(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given; joints are MPII's."""
    missing = {name: value for name, value in _WORLD.items() if getattr(stage, name) is None}
    return replace(stage.of_kind(Medium.PHOTOS), **missing, joints="mpii")


def kept_albums(folder: Path, data: Collection[Any], **asked: Any) -> PoseAlbums:
    """As `albums`; those of Stage, whose people never lived, are kept in a file for the next call.

    Args:
        folder: where the file lies.
        data: of photos with joints.
        asked: the keywords of `albums`.
    """
    if not isinstance(data, Stage):
        return albums(data, **asked)
    said = repr((data, [asked[name] for name in ("most", "tested", "public")]))
    path = folder / f"{KEPT}{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    if path.is_file():
        found: PoseAlbums = joblib.load(path)
        return found
    made = albums(data, **asked)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    joblib.dump(made, part)
    part.replace(path)
    return made


def albums(
    data: Collection[Any],
    *,
    most: int | None,
    tested: int | None,
    public: int,
    device: str = "cpu",
    told: bench.Told = bench.quiet,
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
        told: how far it is.
    """
    photos = data.of_kind(Medium.PHOTOS)
    first = next((name for name in _TAUGHT if name in photos.parts), None)
    other = next((name for name in _TESTED if name in photos.parts), None)
    if first is None or other is None:
        raise BadInput(
            f"Expected photos with one of the parts {', '.join(_TAUGHT)} and one of "
            f"{', '.join(_TESTED)}, got {', '.join(photos.parts) or 'no parts'} of "
            f"{data.ABOUT.title}; choose another data set, or give a manifest a column split."
        )
    if not isinstance(photos, Stage):
        _check_measurable(photos.part(other))
    learned = _album(photos.part(first), most, device, told)
    exam = _album(photos.part(other), tested, device, told)
    if "public" in photos.parts:
        aside = _album(photos.part("public"), public, device, told)
        return PoseAlbums(private=learned, public=aside, tested=exam)
    known = set(learned.prints[:public])
    is_public = np.array([one in known for one in learned.prints])
    if is_public.all():
        raise BadInput(
            f"Expected photos to learn from beside those of the first {public} people, which are "
            f"taken as public, got {len(learned)} people in all; lower --public-records."
        )
    numbers = np.arange(len(learned))
    return PoseAlbums(
        private=learned.some(numbers[~is_public]),
        public=learned.some(numbers[:public]),
        tested=exam,
    )


def _check_measurable(photos: Collection[Any]) -> None:
    """PCKh measures by the size of the head: without any the tables would be empty."""
    count = min(len(photos), _LOOKED_AT)
    for photo in _each(photos, range(count)):
        if photo.joints is not None and photo.head_px:
            return
    raise BadInput(
        "Expected photos to test on with joints and the size of the head, by which PCKh measures, "
        f"got none among the first {count} of {photos.ABOUT.title}, {photos.part_name}; take "
        "--data stage, --data mpii --form json with its gt_valid.mat, or --data manifest with the "
        "columns joints and head_px."
    )


def first_private(
    data: Collection[Any], count: int, *, told: bench.Told = bench.quiet
) -> PersonAlbum:
    """The first photos to learn from, by themselves."""
    photos = data.of_kind(Medium.PHOTOS)
    part = photos.part(next(name for name in _TAUGHT if name in photos.parts))
    return _album(part, count, "cpu", told)


def _album(photos: Collection[Any], most: int | None, device: str, told: bench.Told) -> PersonAlbum:
    count, names = min(len(photos), most or len(photos)), photos.joint_names
    if not count:
        raise BadInput(
            f"Expected photos in the part {photos.part_name} of {photos.ABOUT.title}, got none; "
            "give more photos."
        )
    found: list[_Cut] = []
    for photo in _photos(photos, count, device):
        found.append(_cut(photo, len(names)))
        told("reading", len(found), count)
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


_Cut = tuple[np.ndarray, np.ndarray, np.ndarray, float, picture_crops.CropRegion, str, str | None]


def _cut(photo: Photo, count: int) -> _Cut:
    """A crop, its targets, the photo's joints and head, where the crop is, and a fingerprint."""
    crop, target = taught(photo, count)
    region = picture_crops.region_of(photo.image, photo.box)
    head_px = np.nan if photo.head_px is None else photo.head_px
    known = _joints(photo, count), head_px, region, pixels_sha256(photo), photo.subject
    return crop, target, *known


def public_pictures(crops: np.ndarray, psi: Psi, *, jobs: int = 1) -> np.ndarray:
    """Psi of crops (N, H, W, 3), some at a time."""
    parts = [crops[start : start + _TOGETHER] for start in range(0, len(crops), _TOGETHER)]
    if jobs == 1 or len(parts) == 1:
        return np.concatenate([psi(part) for part in parts])
    return np.concatenate(list(bench.together((delayed(psi)(part) for part in parts), jobs=jobs)))


def _photos(photos: Collection[Any], count: int, device: str) -> Iterator[Photo]:
    if isinstance(photos, Stage):
        return photos.photographed(count, device=device)
    return _each(photos, range(count))


def _each(photos: Collection[Any], numbers: Iterable[int]) -> Iterator[Photo]:
    return (photo_of(photos[number]) for number in numbers)


def _joints(photo: Photo, count: int) -> np.ndarray:
    return np.full((count, 2), np.nan) if photo.joints is None else photo.joints
