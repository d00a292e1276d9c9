"""By how much a public pose network's joints move when a film is released."""

from __future__ import annotations

import numpy as np

from masquerade.errors import MissingExtra
from masquerade.recipes.ppedcrf.measured import PlaceRoom
from masquerade.recipes.ppedcrf.taken import released
from masquerade.recipes.ppedcrf.variants import Variant


def moved_px(room: PlaceRoom, variant: Variant) -> float | None:
    """The mean over films and joints, in pixels of the middle frame; None without the network.

    Films in which it finds nobody before are left out; nobody after counts as the frame's height.
    """
    try:
        from masquerade.vision.poses import PoseLandmarks

        seer = PoseLandmarks()
        seer.ready()
    except (ImportError, MissingExtra):
        return None
    found = []
    for film, shown in zip(
        room.scenes.queries, released(room.scenes.queries, variant, 0), strict=True
    ):
        middle = len(shown) // 2
        before, after = (seer.people(frames[middle]) for frames in (film.frames, shown))
        if not before:
            continue
        if not after:
            found.append(float(shown.shape[1]))
            continue
        away = before[0].joints[:, :2] - after[0].joints[:, :2]
        found.append(float(np.linalg.norm(away, axis=1).mean()))
    return float(np.mean(found)) if found else None
