"""Six hundred damaged files: each gives frames or a clear refusal, never a hang or a crash."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import video_files as maker
from video_files import KINDS, Kind

FILES, WORKERS, SECONDS_EACH, SECONDS_ALL = 600, 2, 10, 120
BASES = {name: KINDS[name] for name in ("h264.mp4", "h264-front.mp4", "h264-fragments.mp4")}
BASES |= {name: KINDS[name] for name in ("h264.mkv", "h265.mp4", "mpeg4.avi", "mjpeg.avi")}
BASES |= {name: KINDS[name] for name in ("mjpeg.mov", "ffv1.mkv", "ffv1.avi", "vp9.webm")}
BASES["picture.png"] = Kind(suffix=".png", codec="png", pixel_format="rgb24")
BASES["picture.webp"] = Kind(suffix=".webp", codec="libwebp")
BASES["film.gif"] = Kind(suffix=".gif", codec="gif", pixel_format="rgb8")
BASES["film.ts"] = Kind(suffix=".ts", options=maker.B_FRAMES)
BASES["film.flv"] = Kind(suffix=".flv", options=maker.B_FRAMES)
BASES["film.mpg"] = Kind(suffix=".mpg", codec="mpeg2video", options=maker.FINE)
BASES["picture.jpg"] = Kind(suffix=".jpg", codec="mjpeg", pixel_format="yuvj420p")
WORKER = """
import resource, signal, sys
from pathlib import Path
from masquerade.errors import BadInput
from masquerade.io.video import probe, read

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a hang ends the process, in C code too
for name in sys.stdin.read().split():
    print(name, end=" ", flush=True)
    signal.alarm({seconds})
    outcomes = []
    for look in (lambda path: sum(1 for _ in read.read_frames(path)),
                 lambda path: probe.probe(path).frames,
                 lambda path: len(read.read_segment(path, 5, 8))):
        try:
            outcomes.append(str(look(Path(name))))
        except BadInput:
            outcomes.append("refused")
        except BaseException as error:
            outcomes.append(type(error).__name__)
    signal.alarm(0)
    print(*outcomes, flush=True)
"""


def mutate(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file in one of the ways in which files get damaged, most often slightly."""
    made = bytearray(data)
    size = len(made)
    kind = rng.choice(["payload", "tags", "header", "cut", "splice", "sizes"], p=WEIGHTS)
    if kind == "payload":
        for place in rng.integers(size // 4, size * 3 // 4, rng.integers(1, 3)):
            made[place] ^= 1 << rng.integers(8)
    elif kind == "tags":
        places = [place for mark in MARKS if (place := data.find(mark)) >= 0]
        for place in places or [size - 1]:
            made[min(place + int(rng.integers(4, 12)), size - 1)] = rng.integers(256)
    elif kind == "header":
        for place in rng.integers(0, min(size, 900), rng.integers(1, 4)):
            made[place] = rng.integers(256)
    elif kind == "cut":
        del made[int(size * rng.uniform(0.05, 0.99)) :]
    elif kind == "splice":
        place = int(rng.integers(size))
        made[place : place + 200] = other[place : place + int(rng.integers(1, 300))]
    else:
        place = int(rng.integers(0, min(size, 1200) - 4)) & ~3
        made[place : place + 4] = int(rng.choice([0, 1, 2**16, 2**31, 2**32 - 1])).to_bytes(
            4, "big"
        )
    return bytes(made)


WEIGHTS = (0.42, 0.26, 0.12, 0.07, 0.05, 0.08)
MARKS = (b"hdlr", b"udta", b"Lavf", b"Lavc", b"free", b"JUNK", b"INFO", b"ISFT", b"pHYs", b"JFIF")


def mutants(folder: Path) -> Iterator[Path]:
    """The damaged files; the same ones in every run."""
    film = maker.moving(12, 24, 32)
    bases = []
    for name, kind in BASES.items():
        frames = film[:1] if name.startswith("picture") else film
        options = kind.options | {"threads": "1"}
        path = maker.make(folder / name, frames, replace(kind, options=options))
        bases.append((path.suffix, path.read_bytes()))
    rng = np.random.default_rng(20)
    for number in range(FILES):
        suffix, data = bases[number % len(bases)]
        path = folder / f"{number:03}{suffix}"
        path.write_bytes(mutate(data, bases[rng.integers(len(bases))][1], rng))
        yield path


def test_damaged_files_give_frames_or_a_refusal(tmp_path: Path) -> None:
    names = [str(path) for path in mutants(tmp_path)]
    command = [sys.executable, "-c", WORKER.replace("{seconds}", str(SECONDS_EACH))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen(command, text=True, **pipes) for _ in range(WORKERS)]  # type: ignore[call-overload]
    lines = []
    for number, worker in enumerate(workers):
        worker.stdin.write(" ".join(names[number::WORKERS]))
        worker.stdin.close()
    for worker in workers:
        out = worker.stdout.read()
        worker.wait(timeout=SECONDS_ALL)
        assert worker.returncode == 0, f"hang (-14) or crash at {out.splitlines()[-1]}"
        assert worker.stderr.read() == ""
        lines += out.splitlines()
        worker.stdout.close()
        worker.stderr.close()
    assert len(lines) == FILES
    outcomes = [line.split()[1:] for line in lines]
    odd = {word for each in outcomes for word in each if word != "refused" and not word.isdigit()}
    assert not odd, "only frames or BadInput"
    assert all(frames == probed for frames, probed, _ in outcomes), "reading and probing agree"
    share = Counter(frames != "refused" for frames, _, _ in outcomes)[True] / FILES
    assert 0.5 <= share <= 0.9, f"{share:.0%} decoded: too rough, or too gentle to prove anything"
