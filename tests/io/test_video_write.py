"""Frames out: exact where asked, faithful otherwise, and nothing else in the file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import video_files as maker
from conftest import python
from masquerade.errors import BadInput
from masquerade.io.video import PICTURES, WRITABLE, probe, read, write
from video_files import KINDS, RATE

FILM = maker.moving(12, 48, 64)
EXACT = (".mp4", ".m4v", ".mov", ".mkv", ".avi", ".png")
SIZES = ((48, 64), (17, 33), (1, 1), (2, 2), (64, 1), (3, 250))


def written(
    path: Path,
    film: np.ndarray,
    *,
    rate: Fraction = RATE,
    aspect: Fraction = Fraction(1),
    exact: bool = False,
    audio_from: Path | None = None,
) -> Path:
    count, height, width, _ = film.shape
    outline = write.FilmOutline(
        suffix=path.suffix,
        frames=count,
        height=height,
        width=width,
        rate=rate,
        aspect=aspect,
        exact=exact,
    )
    with path.open("wb") as stream:
        with write.open_encoder(stream, outline, audio_from=audio_from) as encoder:
            for frame in film:
                encoder.encode_array(frame)
    assert encoder.count == count
    return path


def all_frames(path: Path) -> np.ndarray:
    return np.stack(list(read.read_frames(path)))


def length(suffix: str) -> int:
    return 1 if suffix in PICTURES else 12


@pytest.mark.parametrize("suffix", EXACT)
@pytest.mark.parametrize("size", SIZES)
def test_exact_gives_back_every_bit(suffix: str, size: tuple[int, int], tmp_path: Path) -> None:
    if suffix == ".mkv" and size[1] == 1:
        pytest.skip("FFV1 takes no single column; see below")
    film = np.random.default_rng(5).integers(0, 256, (length(suffix), *size, 3), dtype=np.uint8)
    path = written(tmp_path / f"a{suffix}", film, exact=True)
    assert np.array_equal(all_frames(path), film)


@pytest.mark.parametrize("suffix", WRITABLE)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_kept(suffix: str, size: tuple[int, int], tmp_path: Path) -> None:
    film = maker.moving(length(suffix), *size)
    path = written(tmp_path / f"a{suffix}", film)
    assert all_frames(path).shape == film.shape
    assert probe.probe(path).shape == film.shape


@pytest.mark.parametrize("suffix", WRITABLE)
@pytest.mark.parametrize("height", [240, 720])
def test_colours_survive_without_bias(suffix: str, height: int, tmp_path: Path) -> None:
    """A wrong range is 5 levels or more at the ends, a wrong matrix as much in the primaries."""
    for film in (maker.patches(height, 160)[None], maker.moving(1, height, 160)):
        path = written(tmp_path / f"a{suffix}", film)
        error = all_frames(path)[0].astype(float) - film[0]
        inside = np.zeros((height, 160), bool)
        inside.reshape(height // 16, 16, 10, 16)[:, 5:11, :, 5:11] = True  # away from edges
        assert np.abs(error[inside]).mean() < 2.5
        assert np.abs(error[inside].mean(axis=0)).max() < 0.8
        squares = error.reshape(height // 16, 16, 10, 16, 3)[:, 5:11, :, 5:11].mean(axis=(1, 3))
        assert np.abs(squares).max() < 5


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITABLE if suffix not in PICTURES])
def test_the_default_is_visually_lossless(suffix: str, tmp_path: Path) -> None:
    film = maker.moving(12, 240, 320)
    error = all_frames(written(tmp_path / f"a{suffix}", film)).astype(float) - film
    assert 10 * np.log10(255**2 / np.mean(error**2)) > 42


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITABLE if suffix not in PICTURES])
@pytest.mark.parametrize(
    "rate",
    [Fraction(25), Fraction(30000, 1001), Fraction(24000, 1001), Fraction(1, 2), Fraction(240)],
)
def test_the_rate_is_kept(suffix: str, rate: Fraction, tmp_path: Path) -> None:
    found = probe.probe(written(tmp_path / f"a{suffix}", FILM, rate=rate))
    assert found.rate == rate and not found.is_variable_rate and found.warnings == ()


def test_a_rate_with_large_numbers_is_kept_closely(tmp_path: Path) -> None:
    rate = Fraction(29_345_671, 1_000_003)
    for suffix in (".mp4", ".avi", ".mkv", ".webm"):
        found = probe.probe(written(tmp_path / f"a{suffix}", FILM, rate=rate))
        assert abs(found.rate / rate - 1) < 1e-3


def test_the_aspect_ratio_is_kept_or_refused(tmp_path: Path) -> None:
    for suffix in (".mp4", ".mov", ".mkv", ".avi", ".png", ".jpg"):
        path = written(tmp_path / f"a{suffix}", FILM[: length(suffix)], aspect=Fraction(4, 3))
        assert probe.probe(path).aspect == Fraction(4, 3)
    for suffix, exact in ((".webm", False), (".mkv", True), (".avi", True)):
        with pytest.raises(ValueError, match=r"Expected square pixels .* write a \.mp4"):
            written(tmp_path / f"b{suffix}", FILM, aspect=Fraction(4, 3), exact=exact)


@pytest.mark.parametrize("suffix", WRITABLE)
def test_the_same_frames_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    film = maker.moving(length(suffix), 96, 128)
    for exact in (False, True) if suffix in EXACT else (False,):
        made = {written(tmp_path / f"a{suffix}", film, exact=exact).read_bytes() for _ in range(5)}
        assert len(made) == 1


@pytest.mark.parametrize("source", [".mp4", ".mov", ".mkv"])
@pytest.mark.parametrize("suffix", [".mp4", ".m4v", ".mov", ".mkv", ".avi", ".webm"])
def test_a_rewrite_leaves_nothing_but_frames(source: str, suffix: str, tmp_path: Path) -> None:
    before = maker.make_furnished(tmp_path / f"a{source}", maker.moving(30, 48, 64))
    text = before.read_bytes()
    assert all(secret.encode() in text for secret in (*maker.SECRETS[:4], maker.SPOKEN))
    with (tmp_path / f"b{suffix}").open("wb") as stream:
        write.write_video(stream, read.read_frames(before), suffix=suffix, rate=RATE)
    found = probe.probe(tmp_path / f"b{suffix}")
    assert found.frames == 30 and found.other_streams == () and found.chapters == 0
    assert not [key for key in found.metadata if "time" in key.lower()]
    benign = {"und", "VideoHandler", "isom", "512", "qt  ", "isomiso2avc1mp41", "Lavf", "FFMP"}
    benign |= {"[0][0][0][0]", "1"}
    listed = {text for key, text in found.metadata.items() if "DURATION" not in key}
    assert not listed - benign
    after = (tmp_path / f"b{suffix}").read_bytes()
    for word in (*maker.SECRETS, maker.SPOKEN, "Ada", "iPhone", "x264", "Lavc", "Lavf6", "ISO6709"):
        assert word.encode() not in after


def test_pictures_leave_their_exif_behind(tmp_path: Path) -> None:
    path = maker.with_exif(written(tmp_path / "a.jpg", FILM[:1]), orientation=6)
    for suffix in (".jpg", ".png"):
        with (tmp_path / f"b{suffix}").open("wb") as stream:
            write.write_video(stream, read.read_frames(path), suffix=suffix, rate=RATE)
        data = (tmp_path / f"b{suffix}").read_bytes()
        assert b"Exif" not in data and b"eXIf" not in data and b"Lavc" not in data
        assert all_frames(tmp_path / f"b{suffix}").shape == (1, 64, 48, 3)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi"])
def test_sound_is_copied_as_it_is_and_alone(suffix: str, tmp_path: Path) -> None:
    film = maker.moving(30, 48, 64)
    before = maker.make_furnished(tmp_path / "a.mp4", film)
    path = written(tmp_path / f"b{suffix}", film, audio_from=before)
    found = probe.probe(path)
    assert found.other_streams == ("audio aac",) and found.frames == 30
    kept, whole = sound_of(path), sound_of(before)
    assert whole.endswith(kept) and len(kept) > 0.9 * len(whole), "less what is before frame 0"
    for word in (*maker.SECRETS, maker.SPOKEN, "fra"):
        assert word.encode() not in path.read_bytes()
        assert word not in " ".join(found.metadata.values())


def sound_of(path: Path) -> bytes:
    with av.open(str(path)) as container:
        return b"".join(bytes(packet) for packet in container.demux(audio=0))


def test_sound_ends_with_the_frames_and_may_be_missing(tmp_path: Path) -> None:
    before = maker.make_furnished(tmp_path / "a.mp4", maker.moving(30, 48, 64))
    path = written(tmp_path / "b.mp4", FILM, audio_from=before)
    assert 0.3 < len(sound_of(path)) / len(sound_of(before)) < 0.6
    silent = maker.make(tmp_path / "c.mp4", FILM, KINDS["h264.mp4"])
    assert probe.probe(written(tmp_path / "d.mp4", FILM, audio_from=silent)).other_streams == ()


def test_sound_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    before = maker.make_furnished(tmp_path / "a.mp4", FILM)
    for suffix, message in (
        (".webm", r"sound that a \.webm can hold, got aac"),
        (".png", "no sound"),
    ):
        with pytest.raises(ValueError, match=message):
            written(tmp_path / f"b{suffix}", FILM[: length(suffix)], audio_from=before)
    with pytest.raises(BadInput):
        written(tmp_path / "b.mp4", FILM, audio_from=tmp_path / "none.mp4")


REFUSED = {
    "Unknown kind of video to write '.gif'": {"suffix": ".gif"},
    "one frame for a .png, got 2": {"suffix": ".png", "frames": 2},
    "one frame for a .JPG, got 3": {"suffix": ".JPG", "frames": 3},
    "keeps pixels exactly, got .webm; choose from .mp4": {"suffix": ".webm", "exact": True},
    "keeps pixels exactly, got .jpg": {"suffix": ".jpg", "exact": True},
    "width of 2 or more for a lossless .mkv": {"suffix": ".mkv", "width": 1, "exact": True},
    "at most 16384 pixels a side": {"width": 16386},
    "in all": {"suffix": ".png", "width": 30000, "height": 30000},
    "at most 8191 pixels": {"suffix": ".avi", "height": 8192},
    "rate in (0, 1000] frames a second, got 0": {"rate": Fraction(0)},
    "got 1001": {"rate": Fraction(1001)},
    "whole number >= 1": {"frames": 0},
    "Expected square pixels": {"suffix": ".webm", "aspect": Fraction(2)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_written_is_refused_beforehand(message: str) -> None:
    good = {"suffix": ".mp4", "frames": 1, "height": 48, "width": 64, "exact": False, "rate": RATE}
    write.FilmOutline(**good).check_outline()  # type: ignore[arg-type]
    with pytest.raises(ValueError) as error:
        write.FilmOutline(**(good | REFUSED[message])).check_outline()  # type: ignore[arg-type]
    assert message in str(error.value)


def test_nothing_is_written_where_writing_is_refused() -> None:
    for suffix, film, options in (
        (".png", FILM[:2], {}),
        (".mp4", FILM, {"rate": Fraction(0)}),
        (".gif", FILM, {}),
        (".mp4", FILM[..., 0], {}),
        (".mp4", FILM.astype(np.float32), {}),
    ):
        stream = io.BytesIO()
        with pytest.raises(ValueError):
            write.write_video(stream, iter(film), **({"suffix": suffix, "rate": RATE} | options))  # type: ignore[arg-type]
        assert stream.getvalue() == b""


def test_another_number_of_frames_than_announced_is_refused() -> None:
    for count, message in ((11, "Expected 11 frames to write, got more"), (13, "got 12")):
        outline = write.FilmOutline(suffix=".mp4", frames=count, height=48, width=64)
        with pytest.raises(BadInput, match=message):
            with write.open_encoder(io.BytesIO(), outline) as encoder:
                for frame in FILM:
                    encoder.encode_array(frame)
    with pytest.raises(BadInput, match="at least one frame to write, got none"):
        write.write_video(io.BytesIO(), iter(()), suffix=".mp4", rate=RATE)


def test_frames_of_another_size_or_type_are_refused() -> None:
    for odd in (FILM[0, :40], FILM[0].astype(float)):
        with pytest.raises(ValueError, match="at frame 1"):
            write.write_video(io.BytesIO(), iter([FILM[0], odd]), suffix=".mp4", rate=RATE)


def test_an_error_of_the_source_or_the_disk_comes_through() -> None:
    def failing() -> Iterator[np.ndarray]:
        yield from FILM
        raise RuntimeError("power cut")

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    for suffix in (".mp4", ".mkv", ".avi", ".webm"):
        with pytest.raises(RuntimeError, match="power cut"):
            write.write_video(io.BytesIO(), failing(), suffix=suffix, rate=RATE)
        with pytest.raises(OSError, match="No space left"):
            write.write_video(Full(), iter(FILM), suffix=suffix, rate=RATE)


def test_input_arrays_are_left_alone_and_may_be_views(tmp_path: Path) -> None:
    film = np.asfortranarray(FILM[:, ::-1, ::-1])
    film.setflags(write=False)
    path = written(tmp_path / "a.mkv", film, exact=True)
    assert np.array_equal(all_frames(path), film)


def test_our_lossy_video_is_read_alike_by_plain_ffmpeg(tmp_path: Path) -> None:
    """Others see our colours: the tags say what was really done."""
    film = replace_edges(maker.patches(240, 320))[None].repeat(3, axis=0)
    for suffix in (".mp4", ".mkv", ".webm", ".jpg"):
        path = written(tmp_path / f"a{suffix}", film[: 1 if suffix == ".jpg" else 3])
        with av.open(str(path)) as container:
            frame = next(container.decode(video=0)).to_ndarray(format="rgb24")
        error = frame.astype(float) - film[0]
        assert np.abs(error.reshape(15, 16, 20, 16, 3)[:, 5:11, :, 5:11]).mean() < 3


def replace_edges(picture: np.ndarray) -> np.ndarray:
    """Keep colours off the ends of the range, where clipping would hide an error."""
    return (picture.astype(int) * 3 // 4 + 32).astype(np.uint8)


def test_kinds_of_others_can_be_rewritten_exactly(tmp_path: Path) -> None:
    odd = replace(KINDS["ffv1.mkv"], pixel_format="gray10le")
    path = maker.make(tmp_path / "a.mkv", FILM, odd)
    assert np.array_equal(
        all_frames(written(tmp_path / "b.mp4", all_frames(path), exact=True)), all_frames(path)
    )


def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    peaks = [int(python(f"{THERE_AND_BACK}\nrun({str(tmp_path)!r}, {n})")) for n in (300, 3000)]
    assert peaks[1] - peaks[0] < 10_000, "kB; 2,700 frames more would take 39 MB"


THERE_AND_BACK = """
import resource, fractions, pathlib
import numpy as np
from masquerade.io.video import probe, read, write
def run(folder, frames):
    path = pathlib.Path(folder) / f"{frames}.mp4"
    film = np.random.default_rng(1).integers(0, 256, (10, 15, 20, 3), dtype=np.uint8)
    film = film.repeat(4, axis=1).repeat(4, axis=2)
    with path.open("wb") as stream:
        loop = (film[n % 10] for n in range(frames))
        write.write_video(stream, loop, suffix=".mp4", rate=fractions.Fraction(25))
    assert sum(1 for _ in read.read_frames(path)) == probe.probe(path).frames == frames
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_4k_is_read_and_written(tmp_path: Path) -> None:
    film = np.stack([maker.patches(540, 960, seed=seed) for seed in (1, 2)])
    film = film.repeat(4, axis=1).repeat(4, axis=2)
    path = written(tmp_path / "a.mp4", film, rate=Fraction(60))
    assert probe.probe(path).shape == (2, 2160, 3840, 3)
    error = all_frames(path).astype(np.int16) - film
    assert np.abs(error).mean() < 3


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_frames_have_the_times_that_are_given(suffix: str, exact: bool, tmp_path: Path) -> None:
    film, times = maker.moving(5, 24, 32), (0, 1800, 36_000, 37_800, 45_000)
    outline = write.FilmOutline(
        suffix=suffix, frames=5, height=24, width=32, times=times, exact=exact, rate=Fraction(10)
    )
    with (tmp_path / f"out{suffix}").open("w+b") as stream:
        with write.open_encoder(stream, outline) as encoder:
            for frame in film:
                encoder.encode_array(frame)
    assert probe.probe(tmp_path / f"out{suffix}").times == times


def test_times_that_cannot_be_kept_are_refused() -> None:
    of = {"frames": 3, "height": 24, "width": 32}
    with pytest.raises(ValueError, match=r"constant rate for a \.avi"):
        write.FilmOutline(suffix=".avi", times=(0, 1, 2), **of).check_outline()
    with pytest.raises(ValueError, match="Expected 3 times that rise"):
        write.FilmOutline(suffix=".mp4", times=(0, 2, 2), **of).check_outline()
    with pytest.raises(ValueError, match="at most 6 hours between two frames, got 8; cut"):
        write.FilmOutline(suffix=".mp4", times=(0, 2, 2 + 8 * 3600 * 90_000), **of).check_outline()
