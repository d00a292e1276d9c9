"""Claim: at full size a video is released about as fast as it can be decoded, blurred and encoded.

A real video, scaled to 1280x720 and to 1920x1080 at 30 frames a second, goes from file to file. The
floor is FFmpeg alone, through PyAV: decode, its own box blur on the codec's pixels, and the same
encoder with the same options. Ours decodes twice (it counts before it promises), works on RGB, and
reads back what it wrote. Peers: deface for faces, in an environment of its own, and the published
algorithm as it is written, on frames of 64x48 in memory, where it ends. Each case is a process of
its own on all cores; CPU time counts all of its threads. What takes more than twice the floor's CPU
time is named. The last table is what `publish/estimates.py` knows. About ten minutes on two idle
cores; ``--quick`` takes two small sizes and a second of video.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import tyro
from av.filter import Graph

from face_blur import RUN_PEER, peer_python
from masquerade.io.downloads import fetch_asset
from masquerade.io.video import colour, formats, read, write
from masquerade.mechanism import Mechanism
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.face_blur import FaceBlur
from masquerade.mechanisms.filters import Blur, Mosaic
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.publish.recording import FileSettings, release_file
from video_cpu import SMALL, SMALL_FRAMES, as_written, demo

SIZES, QUICK = ((1280, 720), (1920, 1080)), ((160, 90), (320, 180))
RATE, SECONDS = 30, 5
RADIUS = 10  # of the floor's blur; `blur` has 21 pixels across as well
GOAL: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}
OURS: dict[str, Mechanism] = {
    "pooled_gaussian": PooledGaussian(**GOAL),
    "cosine plain": CosineGaussian(**GOAL, denoise="plain"),
    "cosine local": CosineGaussian(**GOAL),
    "mosaic": Mosaic(),
    "blur": Blur(),
    "face_blur": FaceBlur(),
}
FLOOR = "floor: FFmpeg's blur"
OTHERS = (FLOOR, "decode, encode", "read, write (RGB)", "deface")
MOST = 2.0  # times the floor


def make_file(path: Path, size: tuple[int, int], seconds: int) -> None:
    """The real video at another size, forwards and backwards until it is long enough."""
    frames = []
    for array in islice(read.read_frames(fetch_asset("sports2d_demo")), seconds * RATE):
        picture = av.VideoFrame.from_ndarray(array, format="rgb24")
        frames.append(picture.reformat(width=size[0], height=size[1]).to_ndarray())
    with path.open("wb") as stream:
        loop = islice(cycle([*frames, *frames[-2:0:-1]]), seconds * RATE)
        write.write_video(stream, loop, suffix=".mp4", rate=Fraction(RATE))


def by_ffmpeg(source: Path, target: Path, *, is_blurred: bool) -> None:
    """Decode, blur and encode, all of it FFmpeg's; pixels stay as the codec has them."""
    form = formats.find_format(".mp4", exact=False)
    with av.open(str(source)) as held, av.open(str(target), "w") as out:
        stream = held.streams.video[0]
        stream.codec_context.thread_type, stream.codec_context.thread_count = "AUTO", 0
        options = form.options | {"flags": "+bitexact"}
        track = out.add_stream(form.codec, rate=RATE, options=options)
        track.codec_context.width, track.codec_context.height = stream.width, stream.height
        track.codec_context.pix_fmt, track.codec_context.thread_count = "yuv420p", 4
        colour.tag_colours(track.codec_context, height=stream.height)
        blur = _blurring(stream) if is_blurred else iter
        for number, frame in enumerate(held.decode(stream)):
            for picture in blur([frame]):
                picture.pts, picture.time_base = number, Fraction(1, RATE)
                out.mux(track.encode(picture))
        out.mux(track.encode(None))


def _blurring(stream: Any) -> Callable[[list[av.VideoFrame]], Iterator[av.VideoFrame]]:
    graph = Graph()
    first, last = graph.add_buffer(template=stream), graph.add("buffersink")
    blur = graph.add("avgblur", f"sizeX={RADIUS}")
    first.link_to(blur)
    blur.link_to(last)
    graph.configure()

    def blurred(frames: list[av.VideoFrame]) -> Iterator[av.VideoFrame]:
        for frame in frames:
            graph.push(frame)
            yield graph.pull()

    return blurred


def by_rgb(source: Path, target: Path) -> None:
    """Our reader and our writer, with nothing in between."""
    with target.open("wb") as stream:
        write.write_video(stream, read.read_frames(source), suffix=".mp4", rate=Fraction(RATE))


def by_deface(source: Path, target: Path) -> None:
    notes = target.with_suffix(".json")
    command = [peer_python(), "-c", RUN_PEER, source, target, notes]
    subprocess.run(command, check=True, capture_output=True)


def work(case: str, source: Path, target: Path) -> None:
    if case in OURS:
        options = FileSettings(is_watched=False, accept_grey=True, accept_unhidden=True)
        release_file(source, target, OURS[case], options=options)
    elif case == "deface":
        by_deface(source, target)
    elif case == "read, write (RGB)":
        by_rgb(source, target)
    else:
        by_ffmpeg(source, target, is_blurred=case == FLOOR)


def spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(case: str, source: Path) -> dict[str, float]:
    """One case, in this process: what it took."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.mp4"
        wall, cpu = time.perf_counter(), spent()
        work(case, source, target)
        wall, cpu = time.perf_counter() - wall, spent() - cpu
        size = target.stat().st_size
    peaks = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {"wall": wall, "cpu": cpu, "megabytes": max(peaks) * 1024 / 1e6, "size": size}


def alone(*arguments: object) -> dict[str, float] | None:
    """What this script answers as a process of its own; None if it cannot."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"left out: {arguments}: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout or "null")


def one_size(source: Path, size: tuple[int, int], seconds: int, cases: list[str]) -> None:
    frames, pixels = seconds * RATE, size[0] * size[1] * seconds * RATE
    found = {case: took for case in cases if (took := alone("--one", case, source)) is not None}
    floor, slow = found[FLOOR], []
    print(f"\n{size[0]}x{size[1]}, {seconds} s at {RATE} frames a second; ratios are to the floor")
    print(
        f"{'':<22}{'s a second':>11}{'ratio':>7}{'CPU ms':>9}{'ratio':>7}{'MB':>7}{'bytes/px':>10}"
    )
    for case, took in found.items():
        by_clock, by_cpu = (took[what] / floor[what] for what in ("wall", "cpu"))
        times = f"{took['wall'] / seconds:>11.2f}{by_clock:>7.2f}"
        times += f"{1e3 * took['cpu'] / frames:>9.1f}{by_cpu:>7.2f}"
        print(f"{case:<22}{times}{took['megabytes']:>7.0f}{took['size'] / pixels:>10.4f}")
        slow += [f"{case} ({by_cpu:.1f})"] * (by_cpu > MOST)
    print(f"more than {MOST:g} times the floor's CPU time: {', '.join(slow) or 'none'}")
    bare = found.get("read, write (RGB)", floor)["cpu"]
    rates = {case: 1e9 * (found[case]["cpu"] - bare) / pixels for case in OURS if case in found}
    print(
        "beyond reading and writing, ns a pixel, for publish/estimates.py (its counting is in it):"
    )
    print("  " + ", ".join(f"{case} {rate:.0f}" for case, rate in rates.items()))


def beside_the_paper() -> None:
    """The published algorithm, on the one size at which it ends soon; ours take no longer there."""
    width, height = SMALL[0]
    video = np.stack(demo(width, height)[:SMALL_FRAMES])
    start = time.process_time()
    as_written(video)
    each = 1e3 * (time.process_time() - start) / len(video)
    print(
        f"\nthe algorithm as written, {width}x{height} in memory: {each:.1f} CPU ms a frame, ",
        end="",
    )
    print(f"{each * 1e6 / (width * height):.0f} ns a pixel, and that grows with the size")


def main(
    quick: bool = False,
    one: tuple[str, Path] | None = None,
    make: tuple[Path, int, int, int] | None = None,
) -> None:
    """Measure everything; or only one case on a file, or only make a file.

    Args:
        quick: small sizes and one second of video, to see that it runs.
        one: a case and a file; prints what it took.
        make: a file to make, its width, its height and its seconds.
    """
    if one is not None:
        print(json.dumps(measured(*one)))
    elif make is not None:
        make_file(make[0], (make[1], make[2]), make[3])
    else:
        seconds = 1 if quick else SECONDS
        cases = [*OTHERS, *OURS]
        with tempfile.TemporaryDirectory() as folder:
            for size in QUICK if quick else SIZES:
                source = Path(folder) / f"{size[1]}.mp4"
                alone("--make", source, *size, seconds)
                one_size(source, size, seconds, cases)
        beside_the_paper()


if __name__ == "__main__":
    tyro.cli(main)
