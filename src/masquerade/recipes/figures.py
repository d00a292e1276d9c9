"""How hard Stage is: what small networks without privacy learn from it, and what we ask of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from masquerade._optional import require
from masquerade.compute.progress import bars
from masquerade.doors import Answer
from masquerade.files import atomic

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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: where it is computed, its key, what is asked of it, and in words."""

    module: str
    function: str
    key: str
    asked: str
    least: float
    most: float
    said: str


FIGURES: dict[str, Figure] = {
    "video": Figure(
        module="figure_films",
        function="activity_from_video",
        key="top_1",
        asked=">= 0.85",
        least=0.85,
        most=1.0,
        said="activity from a video, unseen people",
    ),
    "frame": Figure(
        module="figure_films",
        function="activity_from_frame",
        key="top_1",
        asked="<= 0.60",
        least=0.0,
        most=0.60,
        said="activity from a single frame, unseen people",
    ),
    "background": Figure(
        module="figure_films",
        function="at_chance",
        key="top_1",
        asked="chance, 0.08 (at most 0.13)",
        least=0.0,
        most=0.13,
        said="activity from the empty place, correlation 0",
    ),
    "background_correlated": Figure(
        module="figure_films",
        function="correlated",
        key="top_1",
        asked=">= 0.60",
        least=0.60,
        most=1.0,
        said="activity from the empty place, correlation 0.9",
    ),
    "signals": Figure(
        module="figure_places",
        function="activity_from_wrist",
        key="top_1",
        asked=">= 0.90",
        least=0.90,
        most=1.0,
        said="activity from the wrist's sensors, unseen people",
    ),
    "pose": Figure(
        module="figure_people",
        function="pose_from_photo",
        key="pckh",
        asked=">= 85",
        least=85.0,
        most=100.0,
        said="joints from a photo, PCKh@0.5, unseen people",
    ),
    "subject": Figure(
        module="figure_people",
        function="subject_from_video",
        key="rank_1",
        asked=">= 0.80",
        least=0.80,
        most=1.0,
        said="who it is, rank-1 among unseen people",
    ),
    "attributes": Figure(
        module="figure_people",
        function="attributes_from_video",
        key="cmap",
        asked=">= 0.80",
        least=0.80,
        most=1.0,
        said="skin tone, gender, face, build, clothing: cMAP, unseen people",
    ),
    "place": Figure(
        module="figure_places",
        function="place_from_photo",
        key="efficientnet_lite0",
        asked="> 0.60, and 0.15 above the thumbnail",
        least=0.60,
        most=1.0,
        said="place among 48 from another side, EfficientNet-Lite0",
    ),
}


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
        chosen = [self.figure] if self.figure else list(FIGURES)
        found, rows = {}, []
        for name in chosen:
            begun = time.perf_counter()
            values = _measured(str(name))
            seconds = time.perf_counter() - begun
            is_kept = keeps(str(name), values)
            found[str(name)] = values | {"seconds": seconds, "is_kept": is_kept}
            rows.append(_row(str(name), values, seconds, is_kept=is_kept))
        lines = [" | ".join(row) for row in rows]
        if self.out is not None:
            atomic.write_whole(self.out, markdown(rows).encode())
            lines.append(f"Wrote {self.out}.")
        return Answer(data=found, lines=lines)


def keeps(name: str, values: dict[str, float]) -> bool:
    """Whether a figure is where it should be."""
    figure = FIGURES[name]
    is_above = name != "place" or values[figure.key] >= values["thumbnail"] + 0.15
    return figure.least <= values[figure.key] <= figure.most and is_above


def _measured(name: str) -> dict[str, float]:
    """Make the data, train and test, with a bar for each."""
    torch = require("torch", extra="train")
    torch.manual_seed(0)
    figure = FIGURES[name]
    home = import_module(f"masquerade.recipes.{figure.module}")
    work: Callable[[Callable[[int, int], None]], dict[str, float]] = getattr(home, figure.function)
    with bars() as progress:
        task = progress.add_task(name, total=None)
        return work(lambda done, total: progress.update(task, completed=done, total=total))


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
    heading = ("figure", "asked", "measured", "kept", "time", "command")
    lines = ["| " + " | ".join(row) + " |" for row in (heading, *rows)]
    lines.insert(1, "|---" * len(heading) + "|")
    return (
        "# How hard Stage is\n\n"
        "Measured one by one, each by its own command; `make figures` runs them all. Small "
        "networks without privacy, one seed each, two cores, other jobs running. Chance is 0.083 "
        "for activities and 0.021 for places. The thumbnail beside the place is an 8 x 8 "
        "picture, compared plainly or with light and tint taken out, whichever does better: "
        "where it is as good as the network, a place is known by its colours alone.\n\n"
        + "\n".join(lines)
        + "\n"
    )


EXAMPLE = Figures()
