"""How many of the visible faces `face_blur` finds, where the truth is known.

A face counts as visible where nose and both eyes are in the picture and nothing lies 5 cm or more
in front of them: a profile counts in which no more than the nose stands before the farther eye, the
back of a head does not. It counts as found where the release changed something at the nose, in
every frame; so a face that the detector misses between two finds is found.
"""

from __future__ import annotations

import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.errors import MissingExtra
from masquerade.joints import JOINTS
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.recipes.video_dprp.results import FaceCount
from masquerade.stage.takes import StagedFilm

_FACE = [JOINTS.index(name) for name in ("nose", "left_eye", "right_eye")]
_FILMS = 48


def counted(stage: Stage, mechanism: Mechanism, *, most: int = _FILMS) -> FaceCount | None:
    """Over some test recordings, or None where the detector is not there."""
    test = stage.part("test")
    visible = found = 0
    for index in np.linspace(0, len(test) - 1, min(most, len(test))).astype(int).tolist():
        film = test.film(index)
        try:
            released = np.asarray(mechanism.apply(film.frames, Noise()))
        except (MissingExtra, OSError):
            return None
        hits = _hits(film, released)
        visible, found = visible + len(hits), found + sum(hits)
    return FaceCount(visible=visible, found=found)


def _hits(film: StagedFilm, released: np.ndarray) -> list[bool]:
    """For each face whose nose and eyes are in sight: whether something changed at the nose."""
    in_sight = film.visible[:, :, _FACE].all(axis=2)  # (N, T)
    changed = (film.frames != released).any(axis=3)  # (T, H, W)
    hits = []
    for person, moment in np.argwhere(in_sight).tolist():
        column, row = np.round(film.joints[person, moment, _FACE[0]]).astype(int).tolist()
        near = changed[moment, max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        hits.append(bool(near.any()))
    return hits
