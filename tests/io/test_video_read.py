"""Frames in: every kind of file gives upright RGB, or a clear refusal."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io.video import is_video, probe, read, write
from video_files import KINDS, RATE, Kind

FILM = maker.moving(30, 48, 64)
EXACT = Kind(suffix=".mkv", codec="ffv1", pixel_format="yuv444p")
WEIGHTS = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("zoo")
    return {name: maker.make(folder / name, FILM, kind) for name, kind in KINDS.items()}


def all_frames(path: Path) -> np.ndarray:
    return np.stack(list(read.read_frames(path)))


def psnr(got: np.ndarray, true: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((got.astype(float) - true) ** 2)))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_its_frames(name: str, zoo: dict[str, Path]) -> None:
    got = all_frames(zoo[name])
    assert got.shape == FILM.shape and got.dtype == np.uint8
    assert psnr(got, FILM) > 34
    assert abs(float(np.mean(got.astype(float) - FILM))) < 1
    assert psnr(got[1:], FILM[:-1]) < 32, "a frame too early or late would show"


@pytest.mark.parametrize("name", KINDS)
def test_probing_counts_frames_and_finds_the_rate(name: str, zoo: dict[str, Path]) -> None:
    found = probe.probe(zoo[name])
    assert found.shape == FILM.shape
    assert found.rate == RATE and found.rate_hz == 25 and found.seconds == 30 / 25
    assert not found.is_variable_rate and found.warnings == ()
    assert found.header_frames in (0, 30)


@pytest.mark.parametrize("name", KINDS)
def test_a_segment_is_that_stretch_of_the_stream(name: str, zoo: dict[str, Path]) -> None:
    every = all_frames(zoo[name])
    for start, stop in ((0, 1), (3, 11), (8, 9), (17, 30), (29, 30)):
        assert np.array_equal(read.read_segment(zoo[name], start, stop), every[start:stop])


def test_a_segment_is_found_by_seeking_where_that_is_safe(zoo: dict[str, Path]) -> None:
    seeks = {name for name in KINDS if read._read_by_seeking(zoo[name], 26, 28) is not None}
    assert seeks == {name for name in KINDS if not name.startswith("mpeg4")}


def test_a_segment_outside_the_video_is_refused(zoo: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match=r"31 frames in .*, got 30; ask for fewer"):
        read.read_segment(zoo["h264.mp4"], 5, 31)
    with pytest.raises(BadInput, match="ask for fewer"):
        read.read_segment(zoo["h264.mp4"], 40, 41)
    for start, stop in ((-1, 3), (3, 3), (4, 2)):
        with pytest.raises(ValueError, match="0 <= start < stop"):
            read.read_segment(zoo["h264.mp4"], start, stop)


def test_variable_rate_becomes_the_average(tmp_path: Path) -> None:
    pts = np.cumsum([0, *([20, 80] * 7), *([50] * 15)])
    path = maker.make(tmp_path / "a.mkv", FILM, Kind(suffix=".mkv", pts=[int(t) for t in pts]))
    found = probe.probe(path)
    assert found.is_variable_rate and found.frames == 30
    assert found.rate == Fraction(29 * 1000, int(pts[-1])).limit_denominator(1001)
    assert any("varies" in note for note in found.warnings)
    assert np.array_equal(read.read_segment(path, 9, 25), all_frames(path)[9:25])


def test_an_edit_list_that_skips_the_beginning_is_obeyed(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.mp4", FILM, KINDS["h264.mp4"])
    data = bytearray(path.read_bytes())
    ticks = struct.unpack(">I", data[data.index(b"mdhd") + 16 :][:4])[0]
    place = data.index(b"elst") + 12
    length, begin = struct.unpack(">II", data[place : place + 8])
    data[place : place + 8] = struct.pack(">II", length - 400, begin + ticks * 2 // 5)
    short = tmp_path / "b.mp4"
    short.write_bytes(data)
    every, got = all_frames(path), all_frames(short)
    assert len(got) == 20 and np.array_equal(got, every[10:])
    for start in (0, 5, 13, 19):
        assert np.array_equal(read.read_segment(short, start, start + 1), got[start : start + 1])


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotation_is_baked_into_the_pixels(suffix: str, degrees: int, tmp_path: Path) -> None:
    kind = Kind(suffix=suffix, options=maker.B_FRAMES)
    plain = all_frames(maker.make(tmp_path / f"a{suffix}", FILM[:3], kind))
    path = maker.make(tmp_path / f"b{suffix}", FILM[:3], replace(kind, rotation=degrees))
    assert np.array_equal(all_frames(path), np.rot90(plain, degrees // 90, axes=(1, 2)))
    found = probe.probe(path)
    assert found.rotation == 360 - degrees, "clockwise"
    assert found.shape[1:3] == ((48, 64) if degrees == 180 else (64, 48))


def test_a_phone_held_upright_is_read_upright(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.mp4", FILM[:2], Kind(aspect=Fraction(4, 3)))
    plain = all_frames(path)
    data = path.read_bytes()
    straight = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    turned = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 48 << 16, 0, 1 << 30)
    place = data.index(straight, data.index(b"tkhd"))
    path.write_bytes(data[:place] + turned + data[place + 36 :])
    assert np.array_equal(all_frames(path), np.rot90(plain, -1, axes=(1, 2)))
    found = probe.probe(path)
    assert found.rotation == 90 and found.aspect == Fraction(3, 4)


def test_a_mirrored_video_is_read_mirrored_and_odd_angles_are_left(tmp_path: Path) -> None:
    kind = Kind(options=maker.B_FRAMES)
    plain = all_frames(maker.make(tmp_path / "a.mp4", FILM[:2], kind))
    mirrored = maker.make(tmp_path / "b.mp4", FILM[:2], replace(kind, rotation=0, hflip=True))
    assert np.array_equal(all_frames(mirrored), plain[:, :, ::-1])
    tilted = maker.make(tmp_path / "c.mp4", FILM[:2], replace(kind, rotation=30))
    assert np.array_equal(all_frames(tilted), plain)
    assert probe.probe(tilted).warnings == ("A turn by other than a quarter is left out.",)


def test_exif_says_how_a_picture_was_held(tmp_path: Path) -> None:
    kind = Kind(suffix=".jpg", codec="mjpeg", pixel_format="yuvj444p", options=maker.FINE)
    plain = all_frames(maker.make(tmp_path / "a.jpg", FILM[:1], kind))[0]
    across = plain.transpose(1, 0, 2)
    expected = [plain, plain[:, ::-1], plain[::-1, ::-1], plain[::-1]]
    expected += [across, np.rot90(plain, -1), across[::-1, ::-1], np.rot90(plain)]
    for orientation, upright in enumerate(expected, 1):
        path = maker.make(tmp_path / "b.jpg", FILM[:1], kind)
        maker.with_exif(path, orientation=orientation)
        assert np.array_equal(all_frames(path), upright[None])
        assert probe.probe(path).shape[1:] == upright.shape


@pytest.mark.parametrize("matrix", [1, 6, 9])
@pytest.mark.parametrize("full", [False, True])
def test_colour_matrix_and_range_are_honoured(matrix: int, full: bool, tmp_path: Path) -> None:
    rgb = maker.patches(48, 64)
    red, blue = WEIGHTS[matrix]
    yuv = maker.to_yuv(rgb, red=red, blue=blue, full=full)
    kind = replace(EXACT, matrix=matrix, full_range=full)
    path = maker.make_raw(tmp_path / "a.mkv", [maker.planes("yuv444p", 48, 64, *yuv)], kind)
    error = all_frames(path)[0].astype(float) - rgb
    assert np.abs(error).max() <= 3 and abs(error.mean()) < 0.3
    assert probe.probe(path).colour_range == ("full" if full else "limited")
    for wrong in (replace(kind, matrix=7 - matrix % 7), replace(kind, full_range=not full)):
        path = maker.make_raw(tmp_path / "b.mkv", [maker.planes("yuv444p", 48, 64, *yuv)], wrong)
        assert np.abs(all_frames(path)[0].astype(float) - rgb).max() > 5


@pytest.mark.parametrize(("height", "matrix"), [(64, 6), (719, 6), (720, 1)])
def test_untagged_colour_goes_by_the_height(height: int, matrix: int, tmp_path: Path) -> None:
    rgb = maker.patches(height, 32)
    red, blue = WEIGHTS[matrix]
    yuv = maker.to_yuv(rgb, red=red, blue=blue, full=False)
    frame = maker.planes("yuv444p", height, 32, *yuv)
    path = maker.make_raw(tmp_path / "a.mkv", [frame], EXACT)
    assert np.abs(all_frames(path)[0].astype(int) - rgb).max() <= 3


def test_ten_bits_become_eight(tmp_path: Path) -> None:
    rgb = maker.patches(48, 64)
    yuv = maker.to_yuv(rgb, red=0.299, blue=0.114, full=False, bits=10)
    kind = replace(EXACT, pixel_format="yuv444p10le")
    path = maker.make_raw(tmp_path / "a.mkv", [maker.planes("yuv444p10le", 48, 64, *yuv)], kind)
    assert np.abs(all_frames(path)[0].astype(int) - rgb).max() <= 2
    found = probe.probe(path)
    assert found.bits == 10 and found.warnings == ("10 bits a channel are reduced to 8.",)
    kind = Kind(codec="libx265", pixel_format="yuv420p10le", options=maker.X265)
    assert psnr(all_frames(maker.make(tmp_path / "b.mp4", FILM, kind)), FILM) > 34


def test_grey_becomes_rgb(tmp_path: Path) -> None:
    grey = np.arange(48 * 64, dtype=np.uint8).reshape(48, 64)
    for full, expected in (
        (None, grey),
        (True, grey),
        (False, np.clip(np.rint((grey.astype(float) - 16) * 255 / 219), 0, 255)),
    ):
        kind = replace(EXACT, pixel_format="gray", full_range=full)
        path = maker.make_raw(tmp_path / "a.mkv", [maker.planes("gray", 48, 64, grey)], kind)
        assert np.array_equal(all_frames(path)[0], np.stack([expected] * 3, axis=-1))


def test_alpha_is_dropped_and_said(tmp_path: Path) -> None:
    picture = np.dstack([FILM[0], np.full((48, 64), 9, np.uint8)])
    for suffix, codec, pixel_format in ((".png", "png", "rgba"), (".mkv", "ffv1", "bgra")):
        frame = av.VideoFrame.from_ndarray(picture, format="rgba").reformat(format=pixel_format)
        kind = Kind(suffix=suffix, codec=codec, pixel_format=pixel_format)
        path = maker.make_raw(tmp_path / f"a{suffix}", [frame], kind)
        assert np.array_equal(all_frames(path)[0], FILM[0])
        assert probe.probe(path).has_alpha
        assert "Transparency is dropped." in probe.probe(path).warnings
    kind = replace(KINDS["vp9.webm"], pixel_format="yuva420p")
    assert probe.probe(maker.make(tmp_path / "a.webm", FILM[:3], kind)).has_alpha


def test_odd_sizes_aspect_and_single_frames_are_kept(tmp_path: Path) -> None:
    film = maker.moving(1, 17, 33)
    kind = Kind(pixel_format="yuv444p", aspect=Fraction(4, 3), options={"crf": "5"})
    path = maker.make(tmp_path / "a.mp4", film, kind)
    found = probe.probe(path)
    assert found.shape == (1, 17, 33, 3) and found.aspect == Fraction(4, 3)
    assert found.rate == RATE and psnr(all_frames(path), film) > 34


def test_a_header_that_lies_about_the_number_of_frames_is_not_believed(tmp_path: Path) -> None:
    for lie in (3, 400):
        path = maker.make(tmp_path / "a.avi", FILM, KINDS["mjpeg.avi"])
        found = probe.probe(maker.lie_in_avi(path, frames=lie))
        assert found.frames == 30 == len(all_frames(path)) and found.header_frames == lie
        assert f"The header says {lie} frames; decoding gives 30." in found.warnings


def test_absurd_rates_are_replaced(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "a.avi", FILM, KINDS["mjpeg.avi"])
    data = bytearray(path.read_bytes())
    place = data.index(b"strh") + 8 + 20
    data[place : place + 8] = struct.pack("<II", 1, 90000)
    path.write_bytes(data)
    found = probe.probe(path)
    assert found.rate == 25 and "25 Hz is assumed" in " ".join(found.warnings)
    kind = Kind(suffix=".mkv", pts=range(0, 3000, 100), rate=Fraction(90000))
    found = probe.probe(maker.make(tmp_path / "b.mkv", FILM, kind))
    assert found.rate == 10


def test_everything_else_in_a_file_is_listed(tmp_path: Path) -> None:
    for suffix in (".mp4", ".mkv"):
        found = probe.probe(maker.make_furnished(tmp_path / f"a{suffix}", FILM))
        assert found.chapters == 2 and found.frames == 30
        assert {"audio aac"} <= set(found.other_streams)
        assert any(each.startswith("subtitle") for each in found.other_streams)
        listed = " ".join(found.metadata.values())
        assert not [secret for secret in maker.SECRETS if secret not in listed]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_file_is_refused(name: str, share: float, zoo: dict[str, Path]) -> None:
    short = maker.cut(zoo[name], share=share)
    for reader in (all_frames, probe.probe):
        with pytest.raises(BadInput, match="which breaks off"):
            reader(short)


def test_a_truncated_picture_or_live_recording_is_refused(tmp_path: Path) -> None:
    live = replace(KINDS["h264.mkv"], container_options={"live": "1"})
    jpeg = Kind(suffix=".jpg", codec="mjpeg", pixel_format="yuvj420p")
    made = {
        "a.mkv": (live, FILM),
        "a.jpg": (jpeg, FILM[:1]),
        "a.png": (Kind(suffix=".png", codec="png", pixel_format="rgb24"), FILM[:1]),
    }
    for name, (kind, film) in made.items():
        path = maker.make(tmp_path / name, film, kind)
        assert len(all_frames(path)) == len(film)
        for share in (0.2, 0.5, 0.9, 0.99):
            with pytest.raises(BadInput):
                all_frames(maker.cut(path, share=share))


def test_what_follows_a_whole_video_is_ignored(zoo: dict[str, Path], tmp_path: Path) -> None:
    for name in ("h264.mp4", "h264.mkv", "mjpeg.avi", "vp9.webm"):
        for extra in (bytes(100), b"\x7fjunk" * 50):
            write_bytes(tmp_path / name, zoo[name].read_bytes() + extra)
            assert len(all_frames(tmp_path / name)) == 30
    for suffix in (".png", ".jpg"):
        with (tmp_path / f"a{suffix}").open("wb") as stream:
            write.write_video(stream, FILM[:1], suffix=suffix, rate=RATE)
        data = (tmp_path / f"a{suffix}").read_bytes()
        write_bytes(tmp_path / f"b{suffix}", data + data[: len(data) // 2])
        assert len(all_frames(tmp_path / f"b{suffix}")) == 1, "a gain map or a thumbnail"


@pytest.mark.parametrize("name", ["h264.mkv", "mpeg4.mp4", "mjpeg.avi", "h264-fragments.mp4"])
def test_damage_in_the_middle_is_refused_not_concealed(name: str, zoo: dict[str, Path]) -> None:
    path = zoo[name].with_name(f"hole-{name}")
    data = bytearray(zoo[name].read_bytes())
    for share in (0.3, 0.5, 0.7):
        hole = bytearray(data)
        middle = int(len(data) * share)
        hole[middle : middle + 1000] = bytes(1000)
        path.write_bytes(hole)
        with pytest.raises(BadInput, match="damaged"):
            all_frames(path)


def resized(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_mux_stream("mjpeg", rate=25, width=64, height=48)
        for number, size in enumerate(((64, 48), (64, 48), (32, 24))):
            encoder = av.CodecContext.create("mjpeg", "w")
            encoder.width, encoder.height = size
            encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 25)
            for packet in encoder.encode(av.VideoFrame(*size, "yuvj420p")) + encoder.encode(None):
                packet.stream, packet.time_base = stream, Fraction(1, 25)
                packet.pts = packet.dts = number
                container.mux(packet)
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


HEIF = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0\0\0\x0cmeta\0\0\0\0"
BAD: dict[str, tuple[str, Callable[[Path], object]]] = {
    "missing.mp4": ("got nothing", lambda path: None),
    "folder.mp4": ("got a folder", lambda path: path.mkdir()),
    "empty.mp4": ("the empty file", lambda path: write_bytes(path, b"")),
    "words.mp4": ("can be decoded", lambda path: write_bytes(path, b"hello, world " * 99)),
    "list.mp4": ("can be decoded", lambda path: write_bytes(path, b"#EXTM3U\n/etc/passwd\n")),
    "concat.mp4": ("can be decoded", lambda path: write_bytes(path, b"ffconcat version 1.0\n")),
    "heif.jpg": ("can be decoded|HEIF", lambda path: write_bytes(path, HEIF)),
    "frameless.mp4": ("at least one frame|stream", lambda path: maker.make_raw(path, [], Kind())),
    "frameless.mkv": ("one frame", lambda path: maker.make_raw(path, [], Kind(suffix=".mkv"))),
    "resized.mkv": ("frames of one size, got 32x24 after 64x48 at frame 2", resized),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_a_clear_error(name: str, tmp_path: Path) -> None:
    message, prepare = BAD[name]
    prepare(tmp_path / name)
    for reader in (all_frames, probe.probe, lambda path: read.read_segment(path, 0, 3)):
        with pytest.raises(BadInput, match=message):
            reader(tmp_path / name)


def test_names_do_not_matter_and_links_are_followed(zoo: dict[str, Path], tmp_path: Path) -> None:
    for name in ("http:%03d.png", "a b\n.MP4", "Frühling.avi", "concat:x|y.mov"):
        (tmp_path / name).symlink_to(zoo["ffv1.mkv"])
        assert len(all_frames(tmp_path / name)) == 30 and is_video(tmp_path / name)
    assert not is_video(tmp_path / "a.npy") and not is_video(tmp_path / "mp4")


def test_files_are_closed_whatever_happens(zoo: dict[str, Path]) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    streams = [read.read_frames(path) for path in zoo.values()]
    for stream in streams:
        next(stream)
    assert handles() > before
    for stream in streams:
        stream.close()
    with pytest.raises(BadInput):
        all_frames(maker.cut(zoo["h264.mkv"], share=0.5))
    assert handles() == before


def test_nothing_is_said_on_the_terminal(
    zoo: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(zoo["h264.mp4"].read_bytes())
    data[len(data) // 2] ^= 255
    for path in (write_bytes(tmp_path / "a.mp4", bytes(data)), zoo["mpeg4-b.avi"]):
        try:
            probe.probe(path)
        except BadInput:
            continue
    assert capfd.readouterr() == ("", "")
