"""The squares of a frame in which people are sought, and which of them look as they did before.

A network that is shown the same picture twice says the same twice. So in a film a square is shown
to it again only where something changed since it was shown last, and now and then anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

_LARGER = 1.5  # a square over an edge, beside one inside
_TILES = 28  # a side of a picture that are compared
_SAME = 4  # shades by which all of them may differ, where nothing changed
_USES = 4  # of an answer, at most

Key = tuple[int, ...]


def squares(rows: int, columns: int, *, parts: int) -> Iterator[tuple[int, int, int]]:
    """Top, left and side of squares over a frame: a part of its shorter side, half overlapping.

    Example:
        >>> list(squares(100, 150, parts=1)), len(list(squares(100, 100, parts=2)))
        ([(0, 0, 100), (0, 50, 100)], 9)
    """
    side = max(1, min(rows, columns) // parts)
    for top in _starts(rows, side):
        for left in _starts(columns, side):
            yield top, left, side


def mirrored(frame: np.ndarray, *, parts: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Top, left and pixels of squares over both edges, half of each in a mirror that stands there.

    They are larger than `squares`, and black above and below the frame: so who fills it is found.

    Example:
        >>> [(top, left) for top, left, _ in mirrored(np.zeros((100, 150, 3)), parts=1)]
        [(-25, -75), (-25, 75)]
    """
    rows, columns = frame.shape[:2]
    half = max(1, min(round(_LARGER / 2 * min(rows, columns) / parts), columns - 1))
    above = max(0, 2 * half - rows) // 2
    below = max(0, 2 * half - rows) - above
    for top in _starts(max(rows, 2 * half), 2 * half):
        for left, start in ((-half, 0), (columns - half, columns - half)):
            band = np.pad(frame[:, start : start + half], ((above, below), (0, 0), (0, 0)))
            inside = band[top : top + 2 * half]
            both = (inside[:, ::-1], inside) if left < 0 else (inside, inside[:, ::-1])
            yield top - above, left, np.hstack(both)


def _starts(length: int, side: int) -> list[int]:
    count = 1 + -(-(length - side) // max(1, side // 2))
    return [round(place) for place in np.linspace(0, length - side, count)]


@dataclass(kw_only=True, eq=False)
class _Answer:
    """What was found in a square.

    Args:
        tiles: of the picture that was shown.
        found: in it.
        uses: how often that stood for a later picture.
    """

    tiles: np.ndarray
    found: np.ndarray
    uses: int = 0


class SeenBefore:
    """What was found in the squares of a film, for those that did not change."""

    def __init__(self) -> None:
        self._answers: dict[Key, _Answer] = {}

    def found(self, key: Key, picture: np.ndarray, look: Callable[[], np.ndarray]) -> np.ndarray:
        """What a look at a square gives, or gave.

        Args:
            key: of the square.
            picture: (H, W, 3) uint8, what a look is shown.
            look: at it.
        """
        tiles = cv2.resize(picture, (_TILES, _TILES), interpolation=cv2.INTER_AREA)
        known = self._answers.get(key)
        if known is None or known.uses >= _USES or _differ(known.tiles, tiles):
            self._answers[key] = _Answer(tiles=tiles, found=look())
        else:
            known.uses += 1
        return self._answers[key].found


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(cv2.absdiff(one, other).max() > _SAME)
