"""Bars: one a class and series, with whiskers, and names that cannot break the picture."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from masquerade.report import plots
from masquerade.report.plots import PlotAxes

GROUPS = ("walk", "run & <jump>", "sit")
AXES = PlotAxes(title='a < "b"', x_label="class", y_label="per cent")


def two(**other: object) -> list[plots.BarSeries]:
    values, spreads = np.array([10.0, 95.0, 0.0]), np.array([2.0, 20.0, 0.0])
    fields: dict[str, object] = {"values": values, "spreads": spreads} | other
    return [
        plots.BarSeries(name="DP", values=values, spreads=np.array([np.nan, 1.0, 0.0])),
        plots.BarSeries(name="Mask<DP>", **fields),  # type: ignore[arg-type]
    ]


def drawn_bars(drawn: str) -> list[tuple[float, ...]]:
    found = re.findall(
        r'class="bar" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn
    )
    return [tuple(map(float, one)) for one in found]


def test_there_is_a_bar_for_every_class_and_series() -> None:
    drawn = plots.draw_bars(two(), GROUPS, AXES, limits=(0, 100))
    assert len(drawn_bars(drawn)) == 6
    assert drawn.count('class="whisker"') == 3, "none where the spread is zero or not known"
    heights = [height for *_, height in drawn_bars(drawn)]
    assert heights[1] / heights[0] == pytest.approx(9.5, rel=0.01) and heights[2] == 0
    left = sorted((x, x + width) for x, _, width, _ in drawn_bars(drawn))
    assert all(end <= begin + 0.11 for (_, end), (begin, _) in itertools.pairwise(left))


def test_names_are_escaped_and_the_picture_is_well_formed() -> None:
    drawn = plots.draw_bars(two(), GROUPS, AXES)
    tree = ElementTree.fromstring(drawn)
    assert tree.attrib["aria-label"] == 'a < "b"' and tree.attrib["role"] == "img"
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Mask<DP>", "run & <jump>", "per cent"} <= set(words)
    assert "<jump>" not in drawn and "<DP>" not in drawn


def test_whiskers_end_at_the_limits() -> None:
    whiskers = re.findall(
        r'class="whisker" x1="[\d.]+" y1="([\d.]+)" x2="[\d.]+" y2="([\d.]+)"',
        plots.draw_bars(two(), GROUPS, AXES, limits=(0, 100)),
    )
    assert min(float(top) for _, top in whiskers) == 34, "115 is drawn as 100"
    free = plots.draw_bars(two(), GROUPS, AXES)
    assert ">100</text>" in free and "120" not in free


@pytest.mark.parametrize(
    ("series", "groups", "axes", "limits", "said"),
    [
        ([], GROUPS, AXES, None, "at least one series"),
        (two(), (), AXES, None, "one group"),
        (two(), ("walk",), AXES, None, "each of 1 groups"),
        (two(spreads=np.zeros(2)), GROUPS, AXES, None, "G=3"),
        (two(values=np.array([1.0, np.nan, 2.0])), GROUPS, AXES, None, "finite"),
        (two(), GROUPS, AXES, (0, 90), "from 0 to 90"),
        (two(), GROUPS, PlotAxes(title="", x_label="", y_label="", is_log=True), None, "linear"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    series: list[plots.BarSeries],
    groups: tuple[str, ...],
    axes: PlotAxes,
    limits: tuple[float, float] | None,
    said: str,
) -> None:
    with pytest.raises(ValueError, match=said):
        plots.draw_bars(series, groups, axes, limits=limits)
