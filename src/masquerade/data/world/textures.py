"""The pool of textures that all places share, each with smaller copies for what is far away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from masquerade.data.world import posters, prints, street_prints, surfaces
from masquerade.data.world.canvas import SIZE_PX, Canvas, drawn

LEVEL_SIZES = tuple(SIZE_PX >> level for level in range(6))
LEVEL_STARTS = tuple(sum(size * size for size in LEVEL_SIZES[:level]) for level in range(6))
_SEED = 7  # the pool is the same in every world; places differ in what they take from it


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool:
    """All textures.

    Args:
        texels: (textures, texels, 4) uint8, red, green, blue, alpha; the levels of one texture
            follow each other, each row by row, each half as wide as the one before.
        index: place of each name.
    """

    texels: np.ndarray
    index: dict[str, int]

    def image(self, name: str) -> np.ndarray:
        """One texture at full size, (SIZE_PX, SIZE_PX, 4) uint8."""
        full = self.texels[self.index[name], : SIZE_PX * SIZE_PX]
        return full.reshape(SIZE_PX, SIZE_PX, 4)


@cache
def pool() -> Pool:
    """The pool; drawn once and kept, not to be written to."""
    every = surfaces.every(_SEED) | posters.every(_SEED) | drawn(prints.DRAWN, _SEED)
    every |= drawn(street_prints.DRAWN, _SEED) | street_prints.fronts(_SEED)
    texels = np.stack([_levels(canvas) for canvas in every.values()])
    texels.setflags(write=False)
    return Pool(texels=texels, index={name: number for number, name in enumerate(every)})


def _levels(canvas: Canvas) -> np.ndarray:
    """The texture and its halvings as one row of texels; clear texels lend no colour."""
    alpha = canvas[..., 3:]
    level = np.concatenate([np.clip(canvas[..., :3], 0, 1) * alpha, alpha], axis=2)
    rows = []
    for size in LEVEL_SIZES:
        solid = np.where(level[..., 3:] > 0, level[..., :3] / np.maximum(level[..., 3:], 1e-9), 0)
        shown = np.concatenate([solid, level[..., 3:]], axis=2)
        rows.append((shown * 255 + 0.5).astype(np.uint8).reshape(-1, 4))
        level = level.reshape(size // 2, 2, size // 2, 2, 4).mean(axis=(1, 3))
    return np.concatenate(rows)
