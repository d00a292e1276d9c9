"""Released films of blocks instead of people, for tests of what learns from them."""

from __future__ import annotations

import numpy as np

from experiments.avatar_films import AvatarFilm
from masquerade.datasets.stage import Stage

SIZE = (16, 64, 64)
WORLD = {"videos": 72, "frames": 16, "height": 64, "width": 64}


def block(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask = np.zeros(SIZE, bool)
    mask[:, top:bottom, left:right] = True
    return mask


def made(stage: Stage, index: int) -> AvatarFilm:
    """A film of noise in which the activity is the block's colour, before and after."""
    rng = np.random.default_rng((stage.seed, index))
    known = stage.labels[index]
    people, q, r = block(12, 50, 20, 40), block(10, 52, 18, 42), block(14, 48, 16, 34)
    eroded = block(15, 47, 17, 33)
    colour = 20 * stage.activities.index(str(known.activity))
    frames = rng.integers(60, 200, (*SIZE, 3)).astype(np.uint8)
    frames[people] = (colour, 255 - colour, 128)
    emptied = frames.copy()
    emptied[q] = rng.integers(60, 200, 3)
    avatars = emptied.copy()
    avatars[r] = (colour, 240 - colour, 90)
    return AvatarFilm(
        frames=frames,
        emptied=emptied,
        avatars=avatars,
        people=people,
        q=q,
        r=r,
        eroded_r=eroded,
        visible=int(people.sum()) // 2 if index == 1 else 0,
        blurred=index % 2,
    )
