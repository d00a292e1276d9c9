"""Kinds of files that are read and never written: what they hold, and where they break off."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io.video import SUFFIXES, WRITABLE, choose_suffix, probe, read
from masquerade.publish.folder import FolderSettings, plan_folder, release_folder
from masquerade.publish.recording import make_mechanism

FILM = maker.moving(12, 48, 64)
H264 = {"bf": "0", "g": "6", "crf": "4", "preset": "fast", "mbtree": "0"}
KINDS = {
    "a.gif": maker.Kind(suffix=".gif", codec="gif", pixel_format="rgb8"),
    "a.ts": maker.Kind(suffix=".ts", options=H264),
    "00001.MTS": maker.Kind(
        suffix=".mts", options=H264, container_options={"mpegts_m2ts_mode": "1"}
    ),
    "a.flv": maker.Kind(suffix=".flv", options=H264),
    "a.mpg": maker.Kind(suffix=".mpg", codec="mpeg2video", options=maker.FINE),
    "a.3gp": maker.Kind(suffix=".3gp", codec="mpeg4", options=maker.FINE),
    "A.MP4": maker.Kind(options=H264),
}
WEBP = maker.Kind(
    suffix=".webp", codec="libwebp", pixel_format="yuv420p", options={"quality": "95"}
)


def make(folder: Path, name: str) -> Path:
    return maker.make(folder / name, FILM, KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_more_kinds_of_film_give_their_frames(name: str, tmp_path: Path) -> None:
    path = make(tmp_path, name)
    film, rate_hz = read.read_whole(path)
    assert film.shape == FILM.shape and rate_hz == pytest.approx(25, rel=0.03)
    near = np.abs(film.astype(float) - FILM).mean()
    assert near < (25 if name == "a.gif" else 6)
    assert probe.probe(path).shape == FILM.shape
    assert np.array_equal(read.read_segment(path, 3, 9), film[3:9])


@pytest.mark.parametrize("name", [name for name in KINDS if name != "a.mpg"])
@pytest.mark.parametrize("share", [0.35, 0.7, 0.97])
def test_a_film_that_breaks_off_inside_of_a_packet_is_refused(
    name: str, share: float, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=r"breaks off|damaged|decoded"):
        probe.probe(maker.cut(make(tmp_path, name), share=share))


@pytest.mark.parametrize("name", KINDS)
def test_zeros_in_the_middle_are_refused(name: str, tmp_path: Path) -> None:
    path = make(tmp_path, name)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(3000)
    path.write_bytes(data)
    with pytest.raises(BadInput):
        probe.probe(path)


def test_a_still_webp_is_a_picture_and_an_animated_one_is_refused(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.webp", FILM[:1], WEBP)
    frames = list(read.read_frames(path))
    assert len(frames) == 1 and np.abs(frames[0].astype(float) - FILM[0]).mean() < 6
    with pytest.raises(BadInput, match="breaks off"):
        probe.probe(maker.cut(path, share=0.6))
    kind = maker.Kind(suffix=".webp", codec="libwebp_anim", pixel_format="yuv420p")
    with pytest.raises(BadInput, match="still picture"):
        probe.probe(maker.make(tmp_path / "b.webp", FILM, kind))


def test_a_webp_is_turned_as_its_exif_says(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.webp", FILM[:1], WEBP)
    tiff = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, 3, 1, 6, 0) + bytes(4)
    data = path.read_bytes() + b"EXIF" + struct.pack("<I", len(tiff)) + tiff
    path.write_bytes(data[:4] + struct.pack("<I", len(data) - 8) + data[8:])
    assert probe.probe(path).shape == (1, 64, 48, 3)
    assert next(read.read_frames(path)).shape == (64, 48, 3)


def test_a_film_of_any_kind_is_released_as_one_that_can_be_written(
    tmp_path: Path, command: Any
) -> None:
    gif = make(tmp_path, "a.gif")
    words = ("--mechanism", "mosaic")
    assert command("release", gif, tmp_path / "b.mp4", *words).code == 0
    assert probe.probe(tmp_path / "b.mp4").frames == len(FILM)
    refused = command("release", gif, tmp_path / "b.gif", *words)
    assert refused.code == 2 and ".mp4" in refused.err


def test_the_folders_of_a_camera_are_released_whole(tmp_path: Path) -> None:
    card = tmp_path / "card"
    for place, name in (
        ("PRIVATE/AVCHD/BDMV/STREAM", "00001.MTS"),
        ("DCIM/100MEDIA", "A.MP4"),
        ("DCIM/100MEDIA", "a.3gp"),
    ):
        (card / place).mkdir(parents=True, exist_ok=True)
        make(card / place, name)
    maker.make(card / "DCIM" / "P.webp", FILM[:1], WEBP)
    jpeg = maker.Kind(suffix=".jpg", codec="mjpeg", pixel_format="yuvj420p")
    maker.make(card / "DCIM" / "IMG_0001.JPG", FILM[:1], jpeg)
    (card / "DCIM" / "INDEX.BDM").write_bytes(b"INDX")
    kept = plan_folder(card, tmp_path / "out", FolderSettings(keep_names=True))
    names = {str(job.target.relative_to(tmp_path)) for job in kept.jobs}
    stream = "out/PRIVATE/AVCHD/BDMV/STREAM/00001.mp4"
    media = {"out/DCIM/100MEDIA/A.MP4", "out/DCIM/100MEDIA/a.mp4", stream}
    assert names == media | {"out/DCIM/P.png", "out/DCIM/IMG_0001.JPG"}
    done = release_folder(
        card,
        tmp_path / "out",
        make_mechanism("mosaic"),
        work=FolderSettings(jobs=1, backend="threading"),
    )
    assert [outcome.error for outcome in done] == [None] * 5


def test_every_kind_has_an_output_that_can_be_written() -> None:
    for suffix in SUFFIXES:
        assert choose_suffix(suffix) in WRITABLE
        assert choose_suffix(suffix.upper()).lower() in WRITABLE
