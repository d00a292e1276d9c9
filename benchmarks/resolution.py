"""Does more resolution help or hurt at an equal guarantee?

The same footage at 240 to 1080 lines, released at epsilon 8 under a unit of 16 pixels, and under a
unit that grows with the picture so that it covers the same patch of the scene. PSNR at its own size
and, to compare like with like, after both the film and its release were averaged down to 240 lines.
Printed as markdown; ``--out docs/resolution.md`` writes the page. About five minutes on two cores.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
import tyro
from joblib import Parallel, delayed

from masquerade.mechanism import VideoMechanism
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.noise import Noise
from quality import Clip, scaled_to, table

FRAMES, DRAWS, LEAST = 64, 3, 240
LINES = (240, 480, 720, 1080)
GOAL = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels"}
CLIPS = {
    "sports2d (chosen on)": ("sports2d_demo", 1768 / 994),
    "pose2sim 1 (held out)": ("pose2sim_single_cam01", 1080 / 1920),
}
MECHANISMS = {"cosine_gaussian": CosineGaussian, "pooled_gaussian": PooledGaussian}
FIXED, GROWING = "16 pixels", "the same patch"


class Figure(NamedTuple):
    """Of one clip at one size: PSNR of each draw at its own size and at the least one."""

    clip: str
    lines: int
    mechanism: str
    unit: str
    sites: int
    own: list[float]
    least: list[float]


def decibels(one: np.ndarray, other: np.ndarray) -> float:
    apart = np.mean(
        [np.mean((a.astype(np.float32) - b) ** 2) for a, b in zip(one, other, strict=True)]
    )
    return 10 * math.log10(255**2 / float(apart))


def sites(unit: str, lines: int) -> int:
    return 16 if unit == FIXED else round(16 * (lines / LEAST) ** 2)


def figure(clip: str, lines: int, mechanism: str, unit: str) -> Figure:
    asset, aspect = CLIPS[clip]
    wide, small = 2 * round(lines * aspect / 2), 2 * round(LEAST * aspect / 2)
    film = Clip(name=clip, asset=asset, width=wide, height=lines, group="").load(FRAMES)
    least = np.stack([scaled_to(frame, LEAST, small) for frame in film])
    made: VideoMechanism = MECHANISMS[mechanism](**GOAL, pixels=sites(unit, lines))
    own, low = [], []
    for seed in range(DRAWS):
        shown = list(made.stream(iter(film), film.shape, Noise(seed=seed)))
        own.append(decibels(film, shown))
        low.append(decibels(least, [scaled_to(frame, LEAST, small) for frame in shown]))
    return Figure(clip, lines, mechanism, unit, sites(unit, lines), own, low)


def verdicts(found: list[Figure]) -> Iterator[str]:
    """More lines against the fewest, at the fewest; beyond twice the standard error, n shown."""
    for clip in CLIPS:
        for mechanism in MECHANISMS:
            for unit in (FIXED, GROWING):
                mine = [
                    f for f in found if (f.clip, f.mechanism, f.unit) == (clip, mechanism, unit)
                ]
                few, many = mine[0], mine[-1]
                gain = mean(many.least) - mean(few.least)
                error = math.hypot(stdev(many.least), stdev(few.least)) / math.sqrt(DRAWS)
                is_clear = abs(gain) > 2 * error
                word = (
                    ("helps" if gain > 0 else "hurts") if is_clear else "makes no clear difference"
                )
                yield (
                    f"- {clip}, {mechanism}, {unit}: {many.lines} lines instead of {few.lines} "
                    f"{word}: {gain:+.2f} dB at {LEAST} lines (standard error {error:.2f}, n = "
                    f"{DRAWS} draws)."
                )


def page(found: list[Figure]) -> str:
    rows = [
        (
            f.clip,
            f.mechanism,
            f.unit,
            str(f.lines),
            str(f.sites),
            f"{mean(f.own):.2f}",
            f"{mean(f.least):.2f}",
        )
        for f in found
    ]
    heads = ("clip", "mechanism", "unit", "lines", "pixels", "PSNR, own size", f"at {LEAST} lines")
    return "\n".join(
        [
            "# Does more resolution help?",
            "",
            "Written by `python benchmarks/resolution.py --out docs/resolution.md`; every number",
            f"and every verdict is computed. The first {FRAMES} frames of real clips, scaled by",
            "area averaging, released at epsilon 8 and delta 1e-4; means over "
            f"{DRAWS} draws of the noise, in dB.",
            "",
            "A unit of 16 pixels is a smaller patch of the scene when there are more pixels. So",
            "there are two questions. With the *same number* of pixels protected, the last column",
            "says what more lines gain. With *the same patch* protected, a face is as many times",
            "its unit at every size, and the guarantee is about the same thing.",
            "",
            table(heads, rows),
            "",
            *verdicts(found),
            "",
        ]
    )


def main(out: Path | None = None) -> None:
    """Measure and print; ``out`` is where the page is written."""
    cases = [
        (clip, lines, mechanism, unit)
        for clip in CLIPS
        for mechanism in MECHANISMS
        for unit in (FIXED, GROWING)
        for lines in LINES
    ]
    found = Parallel(n_jobs=2)(delayed(figure)(*case) for case in cases)
    text = page(found)
    print(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    tyro.cli(main)
