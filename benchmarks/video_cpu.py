"""Claim: a video is released faster than it plays, in less than 1 GB however long it is.

A real video of 320 x 240 at 25 frames a second goes from file to file, decoding and encoding
included; the local step of `cosine_gaussian` may take three times as long as the video. Each
release is a process of its own on all cores. Time is that of a minute of video, peak memory that of
one and of ten minutes. Peer: the published algorithm as it is written, with full decompositions and
an explicit pseudoinverse, in numpy, on small frames in memory, where it ends; ours beside it on the
same frames. About half an hour on two idle cores; five minutes with ``--quick``.
"""

import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import tyro

from masquerade.accounting import published as paper
from masquerade.io.downloads import fetch_asset
from masquerade.io.video import read, write
from masquerade.mechanism import VideoMechanism
from masquerade.mechanisms import precision
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.mechanisms.video_dprp import VideoDprp
from masquerade.noise import Noise
from masquerade.publish.recording import FileSettings, release_file

WIDTH, HEIGHT, RATE = 320, 240, 25
TIMED_S, LENGTHS_S, QUICK_S = 60, (60, 600), (20, 60)  # several chunks each
GOAL = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}
MECHANISMS: dict[str, VideoMechanism] = {
    "video_dprp": VideoDprp(**GOAL),
    "pooled_gaussian": PooledGaussian(**GOAL),
    "cosine_plain": CosineGaussian(**GOAL, denoise="plain"),
    "cosine_local": CosineGaussian(**GOAL),
}
SLOWEST = {"cosine_local": 3.0}  # seconds for a second of video; 1 for the others
MOST_MB, MOST_GROWTH = 1000, 1.1
SMALL = ((64, 48), (128, 96))  # the peer's frames
SMALL_FRAMES, REPEATS = 50, 5


def demo(width: int, height: int) -> list[np.ndarray]:
    """The frames of a real video: its middle, as means over blocks."""
    frames = []
    for frame in read.read_frames(fetch_asset("sports2d_demo")):
        down, across = frame.shape[0] // height, frame.shape[1] // width
        top, left = (frame.shape[0] - down * height) // 2, (frame.shape[1] - across * width) // 2
        inner = frame[top : top + down * height, left : left + across * width]
        means = inner.reshape(height, down, width, across, 3).mean((1, 3))
        frames.append(np.rint(means).astype(np.uint8))
    return frames


def make_files(folder: Path, *lengths_s: int) -> None:
    """Files of these lengths: the video forwards, backwards, forwards and so on."""
    frames = demo(WIDTH, HEIGHT)
    for seconds in lengths_s:
        loop = itertools.islice(itertools.cycle([*frames, *frames[-2:0:-1]]), seconds * RATE)
        with (folder / f"{seconds}.mp4").open("wb") as stream:
            write.write_video(stream, loop, suffix=".mp4", rate=Fraction(RATE))


def release(name: str, source: Path) -> dict[str, float]:
    """One release, in this process: what it took."""
    options = FileSettings(is_watched=False, accept_grey=True)
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        release_file(source, Path(folder) / "out.mp4", MECHANISMS[name], options=options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"wall": wall, "cpu": cpu, "megabytes": kilobytes * 1024 / 1e6}


def as_written(video: np.ndarray) -> np.ndarray:
    """Algorithm 1 with full decompositions and an explicit pseudoinverse."""
    rng, flat = np.random.default_rng(), video.reshape(len(video), -1).astype(np.float64)
    columns = flat.shape[1] // 75
    noise = paper.VideoDprpClaim(
        epsilon=GOAL["epsilon"],
        delta=GOAL["delta"],
        columns=columns,
        split=0.8,
        height=video.shape[1],
        width=video.shape[2],
    )
    drawn = rng.standard_normal((flat.shape[1], columns)) / math.sqrt(columns)
    rows = flat @ drawn
    noisy = rows + noise.sigma_1() * rng.standard_normal(rows.shape)
    covariance = rows.T @ rows
    covariance += noise.sigma_2() * rng.standard_normal(covariance.shape)
    basis = np.linalg.svd(covariance)[2].T
    inverse = np.linalg.pinv(drawn @ basis)
    return np.clip(np.rint(noisy @ basis @ inverse), 0, 255).astype(np.uint8)


def from_scratch(mechanism: VideoMechanism, video: np.ndarray) -> None:
    """A release in memory that starts with nothing computed before."""
    precision.calibrate_precision.cache_clear()
    for _ in mechanism.stream(iter(video), video.shape, Noise()):
        pass


def fastest(work: Callable[[], object]) -> float:
    """The least milliseconds by the clock."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def beside_peer() -> None:
    print(f"\n{SMALL_FRAMES} frames in memory, ms by the clock; ratio is as written / ours")
    print(f"{'frames':<10}{'k':>5}  {'ours':<17}{'as written':>11}{'ours':>9}{'ratio':>8}")
    for width, height in SMALL:
        video = np.stack(demo(width, height)[:SMALL_FRAMES])
        theirs = fastest(lambda video=video: as_written(video))
        for name, mechanism in MECHANISMS.items():
            ours = fastest(lambda m=mechanism, video=video: from_scratch(m, video))
            size, columns = f"{width}x{height}", width * height * 3 // 75
            figures = f"{theirs:>11.1f}{ours:>9.1f}{theirs / ours:>8.2f}"
            print(f"{size:<10}{columns:>5}  {name:<17}{figures}", flush=True)


def alone(*arguments: object) -> str:
    """What this script answers as a process of its own.

    A child's peak memory counts from its parent's on, so whatever is large happens in children.
    """
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def verdict(is_met: bool) -> str:
    return "pass" if is_met else "miss"


def from_file_to_file(short_s: int, long_s: int) -> None:
    print(f"{WIDTH}x{HEIGHT}, {RATE} frames a second, {os.cpu_count()} cores; file to file")
    print(f"seconds for a second of video, on {TIMED_S} s of it; peak memory in MB")
    heads = f"{'wall':>7}{'CPU':>7}  {'target':<13}{f'{short_s} s':>7}{f'{long_s} s':>7}"
    print(f"{'mechanism':<17}{heads}  {f'< {MOST_MB} MB':<11}the same")
    with tempfile.TemporaryDirectory() as folder:
        alone("--make", folder, short_s, long_s)
        for name in MECHANISMS:
            took = {}
            for seconds in (short_s, long_s):
                took[seconds] = json.loads(alone("--one", name, Path(folder) / f"{seconds}.mp4"))
                print(f"done: {name}, {seconds} s of video", file=sys.stderr)
            wall, cpu = (took[TIMED_S][what] / TIMED_S for what in ("wall", "cpu"))
            short, long = (took[seconds]["megabytes"] for seconds in (short_s, long_s))
            most = SLOWEST.get(name, 1.0)
            times = f"{wall:>7.2f}{cpu:>7.2f}  {f'<= {most:g}: {verdict(wall <= most)}':<13}"
            memory = f"{short:>7.0f}{long:>7.0f}  {verdict(max(short, long) < MOST_MB):<11}"
            growth = f"{long / short:.2f}: {verdict(long / short <= MOST_GROWTH)}"
            print(f"{name:<17}{times}{memory}{growth}", flush=True)


def main(
    quick: bool = False,
    one: tuple[str, Path] | None = None,
    make: tuple[Path, int, int] | None = None,
) -> None:
    """Measure everything; or only release a file, or only make two.

    Args:
        quick: 20 s and 60 s of video instead of one and ten minutes.
        one: a mechanism and a file; prints what the release took.
        make: a folder, and the seconds of two files to make there.
    """
    if make is not None:
        make_files(*make)
    elif one is not None:
        print(json.dumps(release(*one)))
    else:
        from_file_to_file(*(QUICK_S if quick else LENGTHS_S))
        beside_peer()


if __name__ == "__main__":
    tyro.cli(main)
