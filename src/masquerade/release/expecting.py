"""What someone will see in a released video or picture, said before it is made.

It follows from mechanism, unit, epsilon and size alone. The bounds between the words were chosen
by looking at releases of generated clips beside `Mechanism.visible`; docs/video.md has the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from masquerade import video
from masquerade._printed import counted
from masquerade.mechanism import Mechanism, Shapes

_SHAPES = 0.1  # share of a picture's variation below which nothing of it was to be seen
_SCENE = 0.7  # above which people and things could be told


class Sight(StrEnum):
    """What is left to see."""

    GREY = "plain grey or noise"
    SHAPES = "blurred shapes or noisy ones"
    SCENE = "a readable scene"


def expected(mechanism: Mechanism, path: Path, shapes: Shapes) -> Sight | None:
    """What to expect of a release; None for anything but videos and pictures with noise."""
    return expected_of(mechanism, video.is_video(path), shapes)


def expected_of(mechanism: Mechanism, is_video: bool, shapes: Shapes) -> Sight | None:
    """The same by what the file is: equal for all files of one shape."""
    share = mechanism.visible(shapes) if is_video else None
    if share is None:
        return None
    if share < _SHAPES:
        return Sight.GREY
    return Sight.SHAPES if share < _SCENE else Sight.SCENE


def said(sight: Sight | None) -> list[str]:
    """The sentence, where there is one."""
    return [] if sight is None else [f"Expect {sight.value}."]


def tally(sights: Iterable[Sight | None]) -> list[str]:
    """The same of several files, the worst first."""
    found = Counter(sights)
    return [
        f"Expect {sight.value} in {counted(found[sight], 'file')}."
        for sight in Sight
        if found[sight]
    ]


def refuse_grey(mechanism: Mechanism, path: Path, shapes: Shapes) -> None:
    """Stop before anything is spent on a picture in which there is nothing to see.

    Raises:
        ValueError: if plain grey or noise is to be expected.
    """
    if expected(mechanism, path, shapes) is not Sight.GREY:
        return
    share, unit = mechanism.visible(shapes), mechanism.guarantee(shapes).unit
    raise ValueError(
        f"Expected a release in which something can be seen, got {Sight.GREY.value}: about "
        f"{100 * (share or 0.0):.2g} % of the picture is left for the unit {unit}. Nothing was "
        "written or spent. Choose a smaller unit or a larger epsilon and try --dry-run, or write "
        "it all the same with --yes (in Python, Options(accept_grey=True))."
    )
