"""The demo's signal: one day of steps, released, and the noise that epsilons ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from masquerade.accounting import epsilon
from masquerade.accounting.calibrate import sampled_gaussian
from masquerade.guarantee import Relation
from masquerade.io import atomic
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.receipt import receipt_path
from masquerade.recipes import bench
from masquerade.recipes.demo.chapter import Chapter
from masquerade.report import page, plots, release_sections
from masquerade.report.page import PagePart
from masquerade.wording import explain

PRIVATE = "steps.private.csv"
MOST = 200.0  # a minute; public: nobody's pace is read from the data
_MINUTES = 1440  # one day of a wearable, a number a minute
_AVERAGED = 61  # minutes; averaging what was released is free
_SAMPLING_PROB, _STEPS, _DELTA = 0.01, 1000, 1e-5
_MULTIPLIERS = np.geomspace(0.6, 20, 9)


def of_a_day(*, rng: np.random.Generator) -> np.ndarray:
    """Steps a minute of a person who never lived: two walks, errands, a night's sleep."""
    minute = np.arange(_MINUTES)
    pace = 8.0 * ((minute > 420) & (minute < 1380))
    for start, length, speed in ((455, 70, 105), (770, 45, 80), (1030, 110, 120)):
        pace = pace + speed * ((minute >= start) & (minute < start + length))
    drawn = rng.gamma(4.0, np.maximum(pace, 1e-6) / 4.0)
    return np.asarray(np.round(drawn).clip(0, MOST))


def released(folder: Path, *, seed: int) -> Chapter:
    """A day, written to a private file and released from it."""
    private, target = folder / PRIVATE, folder / "steps.csv"
    original = of_a_day(rng=np.random.default_rng(seed))
    text = "steps\n" + "".join(f"{value:g}\n" for value in original)
    atomic.write_whole(private, text.encode())
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=8.0, delta=1e-5, unit="frame", low=0.0, high=MOST
    )
    again = Options(heading=True, if_standing=IfStanding.OVERWRITE)
    receipt = release_file(private, target, mechanism, options=again).receipt
    drawn = page.figure(_drawn(original, np.loadtxt(target, skiprows=1)))
    section = release_sections.write_release_section("A day of steps", receipt, pictures=drawn)
    return Chapter(
        sections=[
            replace(section, has_originals=True),  # generated, so it can be shown
            release_sections.receipts([(target.name, receipt)]),
        ],
        lines=[
            f"Released {target}, one day of steps, one number a minute. Its receipt "
            f"({receipt_path(target).name}) says:",
            *(f"  {line}" for line in explain(receipt.guarantee)),
            "",
        ],
        data={"released": str(target)},
    )


def _drawn(original: np.ndarray, released: np.ndarray) -> str:
    """The day before and after, and after averaging what was released."""
    hours = np.arange(_MINUTES) / 60
    window = np.ones(_AVERAGED) / _AVERAGED
    lines = [
        plots.Line(name="released", x=hours, y=released, is_faint=True),
        plots.Line(name="original", x=hours, y=original, is_faint=True),
        plots.Line(name="released, averaged", x=hours, y=np.convolve(released, window, "same")),
        plots.Line(name="original, averaged", x=hours, y=np.convolve(original, window, "same")),
    ]
    axes = plots.Axes(title="Steps of one day", x_label="hour", y_label="steps a minute")
    return plots.draw_lines(lines, axes)


def noise(told: bench.Told = bench.quiet) -> Chapter:
    """Epsilon against the noise multiplier, for the relations."""
    curves = [
        ("zero_out", Relation.ZERO_OUT, False),
        ("add_remove", Relation.ADD_REMOVE, False),
        ("replace_one", Relation.REPLACE_ONE, False),
        ("revealed, zero_out", Relation.ZERO_OUT, True),
        ("revealed, replace_one", Relation.REPLACE_ONE, True),
    ]
    points: list[tuple[str, float, float]] = []
    for name, relation, is_revealed in curves:
        for z in _MULTIPLIERS.tolist():
            event = sampled_gaussian(
                z, sampling_prob=_SAMPLING_PROB, steps=_STEPS, is_revealed=is_revealed
            )
            points.append((name, z, epsilon(event, delta=_DELTA, relation=relation)))
            told("epsilon against noise", len(points), len(curves) * len(_MULTIPLIERS))
    axes = plots.Axes(
        title=f"Poisson sampling, q = {_SAMPLING_PROB:g}, {_STEPS} steps, delta = {_DELTA:g}",
        x_label="noise multiplier",
        y_label="epsilon",
        is_log=True,
    )
    drawn = page.figure(plots.draw_lines(bench.curves(points), axes))
    said = page.paragraphs(["zero_out and add_remove coincide here."])
    section = page.Section(title="Epsilon against noise", body=drawn + said, part=PagePart.APPENDIX)
    return Chapter(sections=[section])
