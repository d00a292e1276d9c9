"""MaskDP's tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _round
from masquerade.recipes.mask_dp_cells import (
    DP,
    MASK_DP,
    MULTI_CLIP,
    PUBLIC,
    ROWS,
    SCRATCH,
    SHARED,
    Cell,
    Setting,
    spread,
)
from masquerade.report import bars, plot

_MOSTLY = 0.9  # of what all pixels teach


@dataclass(frozen=True, kw_only=True)
class Found:
    """All cells of a table and what they were measured on.

    Args:
        cells: in order.
        setting: that they share.
        about: the data, in words.
        units: that were learned from.
        tested: recordings that were tested on.
        seconds: that it took.
    """

    cells: tuple[Cell, ...]
    setting: Setting
    about: str
    units: int
    tested: int
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not any(cell.method == PUBLIC for cell in self.cells):
            raise ValueError(
                f"Expected a row {PUBLIC!r} in the table: without it nobody sees what noise costs."
            )

    def cell(self, method: str, epsilon: float) -> Cell | None:
        """That one, if it was measured."""
        same = (c for c in self.cells if c.method == method and c.epsilon == epsilon)
        return next(same, None)

    @property
    def epsilons(self) -> list[float]:
        """The columns, from small to none."""
        return sorted({cell.epsilon for cell in self.cells})

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that were tested."""
        return tuple(self.cells[0].per_class)


def score(shares: Sequence[float]) -> str:
    """Per cent with their spread.

    Example:
        >>> score((0.5, 0.52, 0.54)), score((0.5,))
        ('52.0 ± 2.0', '50.0')
    """
    text = f"{100 * float(np.mean(shares)):.1f}"
    return f"{text} ± {100 * spread(tuple(shares)):.1f}" if len(shares) > 1 else text


def shown(cell: Cell) -> str:
    """A cell: per cent right, and what was proved under each relation."""
    proved = ", ".join(
        f"{relation} {_round.shown(value, 4)}" for relation, value in cell.proved.items()
    )
    if proved and ROWS[cell.method].is_claim:
        proved = f"CLAIMED, NOT VALID: {cell.epsilon:g}; true: {proved}"
    return f"{score(cell.top_1)} ({proved})" if proved else score(cell.top_1)


def table(found: Found) -> str:
    """Markdown: a row a method, a column an epsilon."""
    columns = ["no noise" if e == math.inf else f"epsilon {e:g}" for e in found.epsilons]
    heading = ["method", "what is protected", *columns]
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    for method in dict.fromkeys(cell.method for cell in found.cells):
        cells = [found.cell(method, epsilon) for epsilon in found.epsilons]
        words = ["-" if cell is None else shown(cell) for cell in cells]
        lines.append("| " + " | ".join([method, ROWS[method].unit, *words]) + " |")
    return "\n".join(lines) + "\n"


def compared(one: Cell, other: Cell) -> str:
    """Whether the first is ahead by more than both spreads: ahead, behind, within the spread."""
    gap, room = one.mean - other.mean, one.spread + other.spread
    if math.isnan(room):
        return "not known from one seed"
    return "within the spread" if abs(gap) <= room else "ahead" if gap > 0 else "behind"


def verdict(found: Found, question: str, pair: tuple[str, str], *, most: float = math.inf) -> str:
    """One sentence: yes, no, within the spread or not known, and the numbers behind it.

    Args:
        found: all cells.
        question: with "at every epsilon" or the like in it, no question mark.
        pair: the rows that are compared.
        most: the largest epsilon that is looked at.

    Returns:
        The sentence, or nothing if the rows were not measured together.
    """
    words, told = [], []
    for epsilon in (e for e in found.epsilons if e <= most):
        one, other = (found.cell(method, epsilon) for method in pair)
        if one is None or other is None:
            continue
        words.append(compared(one, other))
        at = "no noise" if epsilon == math.inf else f"epsilon {epsilon:g}"
        told.append(f"{at}: {score(one.top_1)} against {score(other.top_1)}, {words[-1]}")
    if not words:
        return ""
    ranks = ("behind", "not known from one seed", "within the spread", "ahead")
    word = min(words, key=ranks.index)
    said = {"ahead": "yes", "behind": "no"}.get(word, word)
    return f"{question}? {said.capitalize()}; {'; '.join(told)}."


def sentences(found: Found) -> list[str]:
    """What the table shows, each sentence computed."""
    asked = [
        verdict(
            found,
            "Is DP fine-tuning from public pre-training ahead of training from scratch, "
            "at every epsilon",
            (DP, SCRATCH),
        ),
        verdict(
            found,
            "Is MaskDP ahead of DP at equal epsilon, for each epsilon up to 1",
            (MASK_DP, DP),
            most=1.0,
        ),
        _equal(found),
        verdict(found, "Is MaskDP ahead of its public part, at every epsilon", (MASK_DP, PUBLIC)),
        _sides(found),
        verdict(
            found, "Is MultiClip ahead of DP on one segment, at every epsilon", (MULTI_CLIP, DP)
        ),
        _claims(found),
        _ways(found),
        "Each epsilon is of one run alone; all runs of a table together cost more.",
    ]
    return [sentence for sentence in asked if sentence]


def _equal(found: Found) -> str:
    """At which epsilons the two were compared, under both relations."""
    told = []
    for epsilon in (e for e in found.epsilons if e <= 1):
        pair = [found.cell(method, epsilon) for method in (MASK_DP, DP)]
        if all(pair):
            said = [
                ", ".join(f"{r} {_round.shown(value, 4)}" for r, value in cell.proved.items())
                for cell in pair
                if cell is not None
            ]
            told.append(said[0] if said[0] == said[1] else f"MaskDP {said[0]}, DP {said[1]}")
    if not told:
        return ""
    return (
        "These two were compared at "
        + "; ".join(told)
        + ". Equal numbers are not equal promises: DP's is for the whole recording, MaskDP's for "
        "its private pixels alone."
    )


def _sides(found: Found) -> str:
    """How much is learned from what is public."""
    public, full = (found.cell(method, math.inf) for method in (PUBLIC, DP))
    if public is None or full is None:
        return ""
    sides = ("background", "people"), ("people", "background with the outline of the people")
    private, shared = sides[found.setting.private == "person"]
    rest = "mostly" if public.mean >= _MOSTLY * full.mean else "not mostly"
    return (
        f"Private: {private}; public: {shared}. Without noise the public part alone reaches "
        f"{score(public.top_1)} of the {score(full.top_1)} that all pixels reach (chance: "
        f"{100 / len(found.classes):.1f}): the activity is {rest} in what is public here."
    )


def _claims(found: Found) -> str:
    """What the published form really costs."""
    told = [
        f"claims {cell.epsilon:g}, costs "
        + ", ".join(
            f"{relation} {_round.shown(value, 4)}" for relation, value in cell.proved.items()
        )
        for cell in found.cells
        if cell.method == SHARED and cell.proved
    ]
    if not told:
        return ""
    return (
        "One batch for both parts, as published, shows who is in it, so its epsilon is CLAIMED, "
        f"NOT VALID: {'; '.join(told)}."
    )


def _ways(found: Found) -> str:
    setting = found.setting
    scratch = (
        f" From scratch all weights are trained, with adam, for {setting.scratch_epochs:g} epochs."
        if any(cell.method == SCRATCH for cell in found.cells)
        else ""
    )
    return (
        f"Learned from {found.units} recordings: {found.about}; {setting.network}, part "
        f"{setting.part}, {setting.epochs:g} epochs, {min(setting.batch, found.units)} in a batch "
        f"on average; every epsilon is met under {setting.relation}, at delta 1e-5.{scratch} "
        f"Tested on the middle segment of {found.tested} recordings of other people, in per cent. "
        f"± is the standard deviation over {setting.seeds} seeds, and a row is ahead if it is by "
        f"more than both; so few test recordings alone leave "
        f"{50 / math.sqrt(found.tested):.1f} points unsure."
    )


def markdown(found: Found) -> str:
    """The table, and what it shows."""
    return table(found) + "\n" + "\n".join(f"- {sentence}" for sentence in sentences(found)) + "\n"


def top_1_plot(found: Found) -> str:
    """Per cent right against epsilon; without noise as a faint level."""
    lines = []
    finite = [epsilon for epsilon in found.epsilons if epsilon < math.inf]
    for method in dict.fromkeys(cell.method for cell in found.cells):
        cells = [cell for e in finite if (cell := found.cell(method, e)) is not None]
        if cells:
            x = np.log10([cell.epsilon for cell in cells])
            y = np.array([100 * cell.mean for cell in cells])
            lines.append(plot.Line(name=method, x=x, y=y))
    full = found.cell(DP, math.inf)
    if full is not None:
        x = np.log10([finite[0], finite[-1]])
        level = np.full(2, 100 * full.mean)
        lines.append(plot.Line(name="DP, no noise", x=x, y=level, is_faint=True))
    axes = plot.Axes(
        title=f"Top-1 against epsilon, {found.setting.private} private",
        x_label="epsilon as a power of ten: 0 is epsilon 1",
        y_label="per cent right",
    )
    return plot.svg(lines, axes)


def class_bars(found: Found, *, epsilon: float = 1.0) -> str:
    """MaskDP's Figure 5: how each class fares with and without noise [schneider2024, Fig. 5]."""
    chosen = {
        "no privacy": found.cell(DP, math.inf),
        f"DP, epsilon {epsilon:g}": found.cell(DP, epsilon),
        f"MaskDP, epsilon {epsilon:g}": found.cell(MASK_DP, epsilon),
    }
    series = []
    for name, cell in chosen.items():
        if cell is not None:
            shares = [cell.per_class[one] for one in found.classes]
            series.append(
                bars.Bars(
                    name=name,
                    values=np.array([100 * np.mean(each) for each in shares]),
                    spreads=np.array([100 * spread(each) for each in shares]),
                )
            )
    axes = plot.Axes(
        title=f"Each class, {found.setting.private} private", x_label="", y_label="per cent right"
    )
    return bars.svg(series, found.classes, axes, limits=(0.0, 100.0))
