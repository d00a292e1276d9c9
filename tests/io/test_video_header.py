"""What a header tells, beside what decoding tells."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io.video import probe, read, source
from masquerade.io.video.probe import CountSource

FILM = maker.moving(12, 48, 64)
OTHERS = {
    "turned.mp4": replace(maker.KINDS["h264.mp4"], rotation=90),
    "wide.mp4": replace(maker.KINDS["h264.mp4"], aspect=Fraction(4, 3)),
    "hashed.mp4": maker.Kind(  # every picture with a hash of what it is when it is filtered
        codec="libx265", options={"x265-params": "log-level=none:pools=1:hash=1", "crf": "20"}
    ),
    "film.ts": maker.Kind(suffix=".ts", options=maker.B_FRAMES),
    "film.flv": maker.Kind(suffix=".flv", options=maker.B_FRAMES),
}
SAID = {".mp4", ".mov", ".avi"}  # whose headers tell a number of frames


@pytest.mark.parametrize("name", [*maker.KINDS, *OTHERS])
def test_a_header_tells_what_decoding_tells(name: str, tmp_path: Path) -> None:
    path = maker.make(tmp_path / name, FILM, (maker.KINDS | OTHERS)[name])
    told, found = probe.probe_header(path), probe.probe(path)
    assert told.shape[1:] == found.shape[1:] and told.aspect == found.aspect
    assert (told.codec, told.rotation, told.bits) == (found.codec, found.rotation, found.bits)
    assert told.counting in (CountSource.HEADER, CountSource.ABOUT)
    assert found.counting is CountSource.DECODED and found.frames == len(FILM)
    if path.suffix in SAID and "fragments" not in name:
        assert told.counting is CountSource.HEADER
    if told.counting is CountSource.HEADER:
        assert told.frames == found.frames and told.rate == found.rate
    assert abs(told.frames - found.frames) <= 2


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_picture_is_one_frame_whatever_its_header_says(suffix: str, tmp_path: Path) -> None:
    codec, form = {".png": ("png", "rgb24"), ".jpg": ("mjpeg", "yuvj444p")}[suffix]
    kind = maker.Kind(suffix=suffix, codec=codec, pixel_format=form)
    path = maker.make(tmp_path / f"a{suffix}", FILM[:1], kind)
    assert probe.probe_header(path).shape == (1, 48, 64, 3) == probe.probe(path).shape


def test_a_header_is_read_in_a_moment_however_long_the_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = maker.make(tmp_path / "a.mp4", maker.moving(90, 48, 64), maker.KINDS["h264.mp4"])
    plain, seen = source.demux_packets, []
    monkeypatch.setattr(
        source,
        "demux_packets",
        lambda *words: (seen.append(packet) or packet for packet in plain(*words)),
    )
    assert probe.probe_header(path).frames == 90
    assert len(seen) < 15, "as many as the first frame needs"


def is_bad(path: Path, **options: Any) -> bool:
    try:
        probe.probe(path, **options)
    except BadInput:
        return True
    return False


@pytest.mark.parametrize("name", ["h264.mkv", "mpeg4.avi"])
def test_counting_alone_finds_the_damage_that_showing_finds(name: str, tmp_path: Path) -> None:
    path = maker.make(tmp_path / name, maker.moving(24, 48, 64), maker.KINDS[name])
    data, rng, found = path.read_bytes(), np.random.default_rng(5), []
    for _ in range(12):
        place, spoiled = int(rng.integers(len(data) // 3, len(data) - 200)), bytearray(data)
        spoiled[place : place + 99] = rng.bytes(99)
        path.write_bytes(spoiled)
        found.append(is_bad(path))
        assert found[-1] == is_bad(path, see=lambda frame: None)
    assert sum(found) > 6


@pytest.mark.parametrize("spoil", ["cut", "empty", "text", "large"])
def test_what_a_header_shows_to_be_bad_is_refused(spoil: str, tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.mp4", FILM, maker.KINDS["h264.mp4"])
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-200], "empty": b"", "text": b"hello" * 99}.get(spoil, data))
    with pytest.raises(BadInput):
        probe.probe_header(path, max_pixels=100 if spoil == "large" else 1 << 26)


def test_one_pass_counts_and_shows_every_frame(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.mp4", FILM, OTHERS["turned.mp4"])
    seen: list[np.ndarray] = []
    found = probe.probe(path, see=seen.append)
    assert found == probe.probe(path)
    assert np.array_equal(seen, list(read.read_frames(path)))


def test_whoever_looks_may_stop_the_pass(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.mp4", FILM, maker.KINDS["h264.mp4"])

    def see(frame: np.ndarray) -> None:
        raise OSError("enough")

    with pytest.raises(OSError, match="enough"):
        probe.probe(path, see=see)
