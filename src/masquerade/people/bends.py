"""What skin adds where joints bend: offsets that are linear in how each joint is turned.

After [loper2015, Sec. 3]: the pose blend shapes of SMPL. A body that has none bends by its bones
alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Bends:
    """Offsets for some bones.

    Args:
        directions: (J * 9, V * 3), metres for each number of a turn, which lie line by line.
        bones: (J,) that are turned.
        parents: (J,) from which each is turned.
    """

    directions: np.ndarray
    bones: np.ndarray
    parents: np.ndarray

    def at(self, turns: np.ndarray) -> np.ndarray:
        """(T, V, 3) metres, at rest, for turns (T, B, 3, 3) of all bones from the rest pose."""
        own = np.swapaxes(turns[:, self.parents], -1, -2) @ turns[:, self.bones] - np.eye(3)
        found = own.reshape(len(turns), -1).astype(self.directions.dtype) @ self.directions
        return np.asarray(found.reshape(len(turns), -1, 3))
