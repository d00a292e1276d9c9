"""Claim: time and memory grow as they must: time with what there is to do, memory not with length.

Seconds and peak memory of every video mechanism against frames, pixels and, for one of them, files
in a folder; and of private training against records and weights. Each point is a process of its
own, so that its memory is its own. A growth is the power of x that fits the three largest points:
1 is "twice as much takes twice as long", 0 is "the same". About an hour on two idle cores; two
minutes with ``--quick``.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from masquerade import catalog
from masquerade.report.plots import PlotAxes, PlotLine, draw_lines

GOAL = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}
RATE = Fraction(30)
MANY = "mosaic"  # for folders: what is left is what a file costs by itself
FITTED = 3  # points
CLASSES, BATCH, SIDE = 10, 16, 32


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is measured, in a process of its own.

    Args:
        kind: "video", "folder" or "train".
        name: of the mechanism, or of the method.
        frames: of a video.
        width: of a frame.
        height: of a frame.
        files: in a folder.
        records: that are learned from, once each on average.
        channels: of the network's widest layer.
    """

    kind: str
    name: str
    frames: int = 16
    width: int = 160
    height: int = 120
    files: int = 1
    records: int = 128
    channels: int = 32


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One thing that grows, and for whom.

    Args:
        title: of its table and plots.
        label: what x counts.
        points: by x, for each name.
    """

    title: str
    label: str
    points: dict[str, dict[float, Point]]


Took = dict[str, float]  # "seconds", "megabytes"


def _mechanism(name: str) -> Any:
    kind = type(catalog.make_example("mechanisms", name))
    return kind() if catalog.is_a("mechanisms", name, "Heuristic") else kind(**GOAL)


def axes(*, quick: bool) -> list[Axis]:
    """All that is measured."""
    names = ("mosaic", "pooled_gaussian") if quick else catalog.list_entries("mechanisms")
    lengths = (8, 16, 32) if quick else (8, 16, 32, 64, 128, 256, 512)
    sizes = ((64, 48), (96, 72), (160, 120), (320, 240), (640, 480), (1280, 720), (1920, 1080))
    counts = (1, 4, 16) if quick else (1, 10, 100, 1_000, 10_000)
    records = (32, 64, 128) if quick else (64, 128, 256, 512, 1_024, 2_048)
    widths = (8, 16, 32) if quick else (8, 16, 32, 64, 128)
    sizes = sizes[:3] if quick else sizes
    small = Point(kind="folder", name=MANY, frames=30, width=64, height=48)
    dp_sgd = Point(kind="train", name="dp_sgd")

    def videos(steps: Sequence[tuple[float, dict[str, int]]]) -> dict[str, dict[float, Point]]:
        return {
            name: {x: replace(Point(kind="video", name=name), **more) for x, more in steps}
            for name in names
        }

    return [
        Axis(
            title="A longer video",
            label="frames of 160x120",
            points=videos([(n, {"frames": n}) for n in lengths]),
        ),
        Axis(
            title="A larger picture",
            label="pixels of a frame, 16 frames",
            points=videos([(w * h, {"width": w, "height": h}) for w, h in sizes]),
        ),
        Axis(
            title="More files",
            label="clips of 30 frames of 64x48 in a folder",
            points={MANY: {n: replace(small, files=n) for n in counts}},
        ),
        Axis(
            title="More records to learn from",
            label="records, one epoch",
            points={"dp_sgd": {n: replace(dp_sgd, records=n) for n in records}},
        ),
        Axis(
            title="A larger network",
            label="weights, 128 records",
            points={"dp_sgd": {_weights(n): replace(dp_sgd, channels=n) for n in widths}},
        ),
    ]


def _weights(channels: int) -> int:
    """Of the network that is trained; counted here, where torch is not."""
    count, before = (channels + 1) * CLASSES, 3
    for width in (channels // 2, channels):
        count += 9 * (before + width) * width + 4 * width
        before = width
    return count


def made(point: Point) -> Iterator[np.ndarray]:
    """Frames of bars that move over grain."""
    grain = np.random.default_rng(0).integers(0, 24, (point.height, point.width, 3))
    columns = np.arange(point.width)[None, :, None]
    for number in range(point.frames):
        bars = 100 + 80 * np.sin((columns + 2 * number) / 9.0 + np.arange(3))
        yield np.asarray(bars + grain, np.uint8)


def make_files(point: Point, folder: Path) -> None:
    """As many equal clips as are asked for."""
    from masquerade.io.video import write

    clip = io.BytesIO()
    write.write_video(clip, made(point), suffix=".mp4", rate=RATE)
    for number in range(point.files):
        (folder / f"{number:05}.mp4").write_bytes(clip.getvalue())


def release(point: Point, folder: Path) -> Took:
    """One video, from file to file; starting Python is not counted."""
    from masquerade.publish.recording import FileSettings, release_file

    options = FileSettings(is_watched=False, accept_grey=True, accept_unhidden=True)
    start = time.process_time()
    source, target = folder / "00000.mp4", folder / "out.mp4"
    release_file(source, target, _mechanism(point.name), options=options)
    return _took(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF))


def release_folder(point: Point, folder: Path) -> Took:
    """A whole command, with all its processes and their start; memory is of the largest of them."""
    out = folder.with_name(f"{folder.name}-out")
    words = ["release", folder, out, "--mechanism", point.name, "--keep-names", "--json"]
    subprocess.run(
        [sys.executable, "-m", "masquerade", *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _took(used.ru_utime + used.ru_stime, used)


def train(point: Point) -> Took:
    """One epoch on made-up pictures, without starting Python."""
    import torch

    from masquerade.networks import small_networks as conv
    from masquerade.noise import Noise
    from masquerade.training import loop
    from masquerade.training.plan import PoissonSampling, TrainingPlan
    from masquerade.training.rows import Rows

    torch.manual_seed(0)
    plan = TrainingPlan(
        sampler=PoissonSampling(units=point.records, expected=BATCH),
        steps=point.records // BATCH,
        clip_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    rows = Rows(
        private=torch.rand(point.records, 3, SIDE, SIDE),
        public=None,
        targets=torch.arange(point.records) % CLASSES,
        slots=np.arange(point.records)[:, None],
        trunk=None,
    )
    widths, method = (
        (point.channels // 2, point.channels),
        catalog.make_example("training", point.name),
    )
    whole = conv.make_classifier(axes=2, channels=3, classes=CLASSES, widths=widths)
    network = torch.nn.Sequential(
        *(part for part in whole if not isinstance(part, torch.nn.Dropout))
    )
    if sum(held.numel() for held in network.parameters()) != _weights(point.channels):
        raise ValueError("Expected as many weights as were counted; the network has changed.")
    work, start = loop.Workload(physical=BATCH), time.process_time()
    loop.run_training(
        network, rows, method, plan, noise=Noise(), work=work, progress=lambda *_: None
    )
    return _took(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF))


def _took(seconds: float, used: resource.struct_rusage) -> Took:
    return {"seconds": seconds, "megabytes": used.ru_maxrss * 1024 / 1e6}


def measured(point: Point, folder: Path) -> Took:
    """In this process."""
    if point.kind == "train":
        return train(point)
    return (release_folder if point.kind == "folder" else release)(point, folder)


def alone(point: Point) -> Took | None:
    """In a process of its own, and its files made in another; None where it cannot be done.

    A child's peak memory counts from its parent's on, so nothing large is imported here.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        folder.mkdir()
        for step in ("--make", "--measure"):
            if step == "--make" and point.kind == "train":
                continue
            words = [sys.executable, __file__, step, json.dumps(asdict(point)), str(folder)]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode:
                print(f"cannot: {point}: {done.stderr.strip()[-300:]}", file=sys.stderr)
                return None
        took: Took = json.loads(done.stdout.splitlines()[-1])
    print(f"{point.name}: {took['seconds']:.2f} s, {took['megabytes']:.0f} MB", file=sys.stderr)
    return took


def growth(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The power of x that fits the largest points, by least squares of logarithms."""
    tops = slice(-FITTED, None)
    return float(np.polyfit(np.log(xs[tops]), np.log(np.maximum(ys[tops], 1e-9)), 1)[0])


def table(axis: Axis, found: dict[str, dict[float, Took]], what: str, cell: str) -> str:
    xs = list(next(iter(axis.points.values())))
    lines = [
        f"| {axis.label} | {' | '.join(f'{x:,.0f}' for x in xs)} | growth |",
        "|---" * (len(xs) + 2) + "|",
    ]
    for name, points in found.items():
        cells = [format(points[x][what], cell) if x in points else "-" for x in xs]
        power = "-"
        if len(points) >= FITTED:
            power = f"{growth(list(points), [took[what] for took in points.values()]):.2f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {power} |")
    return "\n".join(lines)


def plot(axis: Axis, found: dict[str, dict[float, Took]], what: str, label: str) -> str:
    lines = [
        PlotLine(
            name=name,
            x=np.array(list(points), np.float64),
            y=np.array([took[what] for took in points.values()]),
        )
        for name, points in found.items()
        if points
    ]
    titles = PlotAxes(title=axis.title, x_label=axis.label, y_label=label, is_log=True)
    return draw_lines(lines, titles)


INTRO = """# How time and memory grow

Written by `python benchmarks/growth.py{quick} --write docs/growth.md` on {day}, {cores} cores.
Seconds are CPU time, of all threads and processes together. Memory is the peak of a whole process
in MB, Python and libraries included. *Growth* is the power of x that fits the three largest points:
1 means that twice as much takes twice as long, 0 that it takes the same. Videos go from file to
file, decoding and encoding included, at (8, 1e-4) for 16 pixels where there is noise. A dash is
what could not be run here.

What to look for: time grows at most in proportion to frames and to files (growth 1), and memory
stops growing with the length of a video and with the number of files.
"""


def page(parts: list[tuple[Axis, dict[str, dict[float, Took]]]], *, plots: str, quick: bool) -> str:
    """The page, whose plots stand in a folder of the name ``plots``."""
    intro = INTRO.format(
        quick=" --quick" * quick, day=date.today().isoformat(), cores=os.cpu_count()
    )
    said = [intro]
    for number, (axis, found) in enumerate(parts, 1):
        said.append(f"## {axis.title}\n")
        for what, cell, words in (("seconds", ".2f", "CPU seconds"), ("megabytes", ".0f", "MB")):
            said.append(f"{words}:\n\n{table(axis, found, what, cell)}\n")
            if plots:
                said.append(f"![{axis.title}, {words}]({plots}/{number}_{what}.svg)\n")
    return "\n".join(said)


def run(*, quick: bool, out: Path | None) -> None:
    """Measure everything, then print or write the page."""
    parts = []
    for axis in axes(quick=quick):
        found = {}
        for name, points in axis.points.items():
            tried = ((x, alone(point)) for x, point in points.items())
            found[name] = {x: took for x, took in tried if took is not None}
        parts.append((axis, found))
    if out is None:
        print(page(parts, plots="", quick=quick))
        return
    folder = out.with_suffix("")
    folder.mkdir(exist_ok=True)
    units = (("seconds", "CPU seconds"), ("megabytes", "MB"))
    for (number, (axis, found)), (what, label) in itertools.product(enumerate(parts, 1), units):
        (folder / f"{number}_{what}.svg").write_text(plot(axis, found, what, label))
    out.write_text(page(parts, plots=folder.name, quick=quick))
    print(f"Wrote {out} and its plots.")


def main(
    quick: bool = False,
    write: Path | None = None,
    make: tuple[str, Path] | None = None,
    measure: tuple[str, Path] | None = None,
) -> None:
    """Measure everything; or only make the files of a point, or only measure it.

    Args:
        quick: few small points, to see that it works.
        write: where the page goes, with a folder of plots beside it; by default it is printed.
        make: a point, and the folder for its files.
        measure: a point, and the folder of its files; prints what it took.
    """
    if make is not None:
        make_files(Point(**json.loads(make[0])), make[1])
    elif measure is not None:
        print(json.dumps(measured(Point(**json.loads(measure[0])), measure[1])))
    else:
        run(quick=quick, out=write)


if __name__ == "__main__":
    tyro.cli(main)
