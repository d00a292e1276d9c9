"""From file to file on a GPU: frames a second in full HD, and which step holds the others up.

Each step alone, then all together as `masquerade release --device cuda` chains them: decode, RGB,
release, YUV, encode. The GPU's own decoder and encoder are tried through PyAV; where a machine has
none it says so. Give a video of 1920x1080; it is played forwards until it has enough frames. Needs
a GPU, torch and PyAV. About three minutes.
"""

from __future__ import annotations

import io
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.codec.hwaccel import HWAccel

from masquerade.io import devices, streams
from masquerade.io.video import colour, read, write
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.gaussian_video import GaussianVideo
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.noise import Noise

FRAMES = 600
TARGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}
CASES: dict[str, GaussianVideo] = {
    "pooled": PooledGaussian(**TARGET),
    "cosine, plain": CosineGaussian(**TARGET, denoise="plain"),
    "cosine, local": CosineGaussian(**TARGET),
}


def rate(work: Callable[[], int]) -> str:
    """Frames a second of something that says how many it did, or why it could not."""
    start = time.perf_counter()
    try:
        count = work()
    except (av.FFmpegError, RuntimeError, ValueError) as error:
        return f"not here ({type(error).__name__}: {str(error).splitlines()[0][:90]})"
    return f"{count / (time.perf_counter() - start):.0f} frames/s"


def decoded(path: Path, *, on_gpu: bool) -> int:
    """Frames that were decoded; those of the GPU are copied to memory."""
    hardware = HWAccel("cuda", allow_software_fallback=False) if on_gpu else None
    with av.open(str(path), hwaccel=hardware) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        return sum(1 for _ in container.decode(stream))


def encoded(frames: list[av.VideoFrame], codec: str, options: dict[str, str]) -> int:
    """Frames that an encoder took."""
    with av.open(io.BytesIO(), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.width, stream.height = frames[0].width, frames[0].height
        stream.pix_fmt = "yuv420p"
        for number in range(FRAMES):
            frame = frames[number % len(frames)]
            frame.pts, frame.time_base = number, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return FRAMES


def outline(shape: tuple[int, ...]) -> write.FilmOutline:
    """A film of that shape."""
    return write.FilmOutline(
        suffix=".mp4",
        frames=shape[0],
        height=shape[1],
        width=shape[2],
        rate=Fraction(30),
        aspect=Fraction(1),
        exact=False,
    )


def written(frames: Iterator[np.ndarray], shape: tuple[int, ...], threads: int = 0) -> int:
    """Frames that were converted and encoded."""
    with (
        tempfile.TemporaryFile() as file,
        write.open_encoder(file, outline(shape), audio_from=None, threads=threads) as encoder,
    ):
        for frame in frames:
            encoder.encode_array(frame)
        return encoder.count


def released(path: Path, mechanism: GaussianVideo, shape: tuple[int, ...], threads: int) -> int:
    """From file to file, as the command does it."""
    room = streams.count_waiting(int(np.prod(shape[1:])))
    with devices.use_device("cuda"):
        frames = streams.read_ahead(read.read_frames(path), max_waiting=room)
        made = mechanism.stream(frames, shape, Noise())  # type: ignore[arg-type]
        return written(made, shape, threads)


def long(path: Path, folder: Path) -> Path:
    """The same video until it has enough frames, encoded anew."""
    few = list(itertools.islice(read.read_frames(path), FRAMES))
    found = folder / "long.mp4"
    with found.open("w+b") as file:
        shape = (FRAMES, *few[0].shape)
        with write.open_encoder(file, outline(shape), audio_from=None, threads=0) as encoder:
            for frame in itertools.islice(itertools.cycle(few), FRAMES):
                encoder.encode_array(frame)
    return found


def main(video: Path) -> None:
    """Print every step, then the chain."""
    devices.torch.cuda.init()
    print(f"{os.cpu_count()} cores; {devices.torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder:
        path = long(video, Path(folder))
        few = list(itertools.islice(read.read_frames(path), 60))
        shape = (FRAMES, *few[0].shape)
        with av.open(str(path)) as container:
            raw = list(itertools.islice(container.decode(video=0), 60))
        print("decode, threads:", rate(lambda: decoded(path, on_gpu=False)))
        print("decode, GPU:", rate(lambda: decoded(path, on_gpu=True)))
        to_rgb = colour.ToRgb()
        print("to RGB:", rate(lambda: sum(to_rgb(frame).shape[2] // 3 for frame in raw)))
        print("decode and RGB:", rate(lambda: sum(1 for _ in read.read_frames(path))))
        from_rgb = colour.FromRgb("yuv420p", height=shape[1])
        yuv = [from_rgb.convert_frame(from_rgb.copy_array(frame)) for frame in few]
        print(
            "from RGB:",
            rate(lambda: sum(1 for f in few if from_rgb.convert_frame(from_rgb.copy_array(f)))),
        )
        for threads in (0, 16):
            many = itertools.islice(itertools.cycle(few), FRAMES)
            print(
                f"from RGB and encode, {threads or 4} threads:",
                rate(lambda m=many, t=threads: written(m, shape, t)),
            )
        for codec, options in (
            ("libx264", {"preset": "superfast", "crf": "14"}),
            ("h264_nvenc", {"preset": "p4", "rc": "constqp", "qp": "18"}),
            ("hevc_nvenc", {"preset": "p4", "rc": "constqp", "qp": "18"}),
        ):
            print(f"encode, {codec}:", rate(lambda c=codec, o=options: encoded(yuv, c, o)))
        for name, mechanism in CASES.items():
            released(path, mechanism, shape, 16)  # compiles and captures
            for threads in (0, 16):
                print(
                    f"file to file, {name}, encoder of {threads or 4} threads:",
                    rate(lambda m=mechanism, t=threads: released(path, m, shape, t)),
                )


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
