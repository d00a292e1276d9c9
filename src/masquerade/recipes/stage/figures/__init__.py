"""How hard Stage is: what small networks without privacy learn from it, and what we ask of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from masquerade._optional import require
from masquerade.io import atomic
from masquerade.recipes import bench
from masquerade.recipes.stage.figures.rows import FIGURES, keeps
from masquerade.result import Answer

Name = Literal[
    "video",
    "frame",
    "background",
    "background_correlated",
    "signals",
    "pose",
    "subject",
    "attributes",
    "place",
]
_HEADING = ("figure", "asked", "measured", "kept", "time", "command")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Measure how hard Stage is, one figure or all of them.

    Args:
        figure: which one; without it, all, which takes about half an hour on two cores.
        out: also write them as a table into this Markdown file.
    """

    figure: Name | None = None
    out: Path | None = None

    def run(self) -> Answer:
        """Train, test, and put the results beside what is asked."""
        chosen: list[str] = [self.figure] if self.figure else list(FIGURES)
        found, rows = {}, []
        for name in chosen:
            begun = time.perf_counter()
            values = _measured(name)
            seconds = time.perf_counter() - begun
            is_kept = keeps(name, values)
            found[name] = values | {"seconds": seconds, "is_kept": is_kept}
            rows.append(_row(name, values, seconds, is_kept=is_kept))
        lines = [" | ".join(row) for row in rows]
        if self.out is not None:
            atomic.write_whole(self.out, markdown(rows).encode())
            lines.append(f"Wrote {self.out}.")
        return Answer(data=found, lines=lines)


def _measured(name: str) -> dict[str, float]:
    """Make the data, train and test, with a bar for each."""
    require("torch", extra="train").manual_seed(0)
    from masquerade.recipes.stage.figures.run import WORK  # torch: not to list the flags

    with bench.telling() as told:
        return WORK[name](partial(told, name))


def _row(name: str, values: dict[str, float], seconds: float, *, is_kept: bool) -> tuple[str, ...]:
    figure = FIGURES[name]
    others = [f"{key} {value:.3g}" for key, value in values.items() if key != figure.key]
    result = f"{values[figure.key]:.3g}"
    if others:
        result += f" ({', '.join(others)})"
    kept = "yes" if is_kept else "NO"
    command = f"`masquerade recipe figures --figure {name}`"
    return figure.said, figure.asked, result, kept, f"{seconds:.0f} s", command


def markdown(rows: list[tuple[str, ...]]) -> str:
    """The docs page."""
    return (
        "# How hard Stage is\n\n"
        "Measured one by one, each by its own command; `make figures` runs them all. Small "
        "networks without privacy, one seed each, two cores, other jobs running. Chance is 0.083 "
        "for activities and 0.021 for places. The thumbnail beside the place is an 8 x 8 "
        "picture, compared plainly or with light and tint taken out, whichever does better: "
        "where it is as good as the network, a place is known by its colours alone.\n\n"
        f"{bench.table(_HEADING, rows)}\n"
    )


EXAMPLE = Figures()
