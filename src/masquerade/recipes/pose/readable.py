"""What of a person can still be read from public pictures: who it is, by the look of the body.

The attacker knows some photos of everybody by name, and is shown psi of others. He makes psi of his
own photos too, so that both look alike, and takes joints, which are public, to find the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from masquerade import joints
from masquerade._optional import require
from masquerade.attacks.rates import bootstrap, hits
from masquerade.recipes.pose.photos import PersonAlbum
from masquerade.scores import Success
from masquerade.training.views import Psi
from masquerade.vision.body_features import ColourLayout

cv2 = require("cv2", extra="vision")


PHOTOS = 320  # private ones, the first, that an attacker is shown and knows together
_EACH = 8  # of one person, half of them known by name
_WIDER = 0.15  # of the joints' extent: heads and feet reach beyond them
_WIDTH = 0.08  # of a body's height: how broad limbs are taken to be
_SMALL = 1e-6

Eye = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # picture, box, mask: a row


def eyes() -> Mapping[str, Eye]:
    """Attackers by name: colours in stripes from head to foot, more and fewer of them."""
    return {f"colours in {n}": ColourLayout(stripes=n).embed for n in (3, 6, 12)}


def named(album: PersonAlbum, psi: Psi | None, *, looks: Mapping[str, Eye]) -> Success:
    """How often the nearest person is the right one, by the attacker who does best.

    Args:
        album: with the names of people.
        psi: what they are seen through; None for photos as they are.
        looks: attackers.
    """
    known, asked = _halves(album)
    numbers = np.concatenate([known, asked])
    seen = album.crops[numbers] if psi is None else psi(album.crops[numbers])
    places = [album.targets[number] for number in numbers]
    whose = np.array([album.subjects[number] for number in numbers])
    found: list[Success] = []
    for look in looks.values():
        rows = np.array(
            [
                look(picture, _box(place), _mask(place, album.names, picture.shape[:2]))[0]
                for picture, place in zip(seen, places, strict=True)
            ]
        )
        found.append(_named(rows[: len(known)], rows[len(known) :], whose, seed=len(found)))
    return max(found, key=lambda one: one.value)


def _named(known: np.ndarray, asked: np.ndarray, whose: np.ndarray, *, seed: int) -> Success:
    """By the nearest of the known photos of each person, in units of how features scatter."""
    scale = known.std(axis=0) + _SMALL
    names, owners = np.unique(whose[: len(known)]), whose[: len(known)]
    gaps = ((asked[:, None] - known[None]) / scale) ** 2  # (asked, known, features)
    apart = gaps.sum(axis=2)
    nearest = np.stack([apart[:, owners == name].min(axis=1) for name in names], axis=1)
    right = np.searchsorted(names, whose[len(known) :])
    is_right = hits(nearest, right, among=1)
    return bootstrap(
        "rank-1",
        lambda rows: float(is_right[rows].mean()),
        whose[len(known) :].tolist(),
        of="people",
        seed=seed,
        chance=1 / len(names),
    )


def _halves(album: PersonAlbum) -> tuple[np.ndarray, np.ndarray]:
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


def _mask(target: np.ndarray, names: Sequence[str], size: tuple[int, int]) -> np.ndarray:
    """(1, H, W): the pixels near a line between two joints; all where there is none."""
    found = np.zeros(size, np.uint8)
    width = max(6, int(_WIDTH * (_box(target)[0, 3] - _box(target)[0, 1])))
    for one, two in joints.limbs(names):
        if target[one, 2] > 0 and target[two, 2] > 0:
            ends = ([round(float(place)) for place in target[joint, :2]] for joint in (one, two))
            cv2.line(found, *ends, 1, width)
    return (found if found.any() else np.ones_like(found))[None].astype(float)


def _box(target: np.ndarray) -> np.ndarray:
    """(1, 4): a little more than the joints that are in the crop."""
    is_there = target[:, 2] > 0
    places = target[is_there, :2] if is_there.any() else np.array([[0.0, 0.0], [192.0, 256.0]])
    low, high = places.min(axis=0), places.max(axis=0)
    more = _WIDER * np.maximum(high - low, 16.0)
    return np.concatenate([low - more, high + more])[None]
