"""Sound that is kept on request brings its sound along and nothing that was written about it."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io.video import audio, write

FILM = maker.moving(12, 48, 64)
MARK = b"Ada at 48.8566N, 2.3522E"
COMMENTS = b"\x03vorbis" + struct.pack("<III", 0, 1, len(MARK)) + MARK + b"\x01"
SOUNDS = {
    "vorbis": (".mkv", ".webm"),
    "libopus": (".mkv", ".mkv"),
    "flac": (".mkv", ".mp4"),
    "aac": (".mov", ".mkv"),
    "alac": (".mp4", ".mov"),
    "libmp3lame": (".avi", ".mkv"),
    "mp2": (".avi", ".avi"),
    "adpcm_ms": (".avi", ".avi"),
    "pcm_s16le": (".mkv", ".mov"),
    "ac3": (".mp4", ".mkv"),
}


def sounding(path: Path, codec: str) -> Path:
    """A film with a tone, and tags wherever the container takes them."""
    with av.open(str(path), "w") as container:
        container.metadata["artist"] = MARK.decode()
        video = container.add_stream("mpeg4", rate=25)
        video.height, video.width, video.pix_fmt = 48, 64, "yuv420p"
        options = {"strict": "-2"} if codec == "vorbis" else {}
        sound = container.add_stream(codec, rate=48000, layout="stereo", options=options)
        sound.metadata["title"] = MARK.decode()
        container.start_encoding()
        for number in range(len(FILM)):
            picture = av.VideoFrame.from_ndarray(FILM[number], format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            container.mux(video.encode(picture.reformat(format="yuv420p")))
        container.mux(video.encode(None))
        _sing(container, sound)
    return path


def _sing(container: av.container.OutputContainer, sound: av.AudioStream) -> None:
    length = sound.codec_context.frame_size or 1024
    resampler = av.AudioResampler(format=sound.codec_context.format, layout="stereo", rate=48000)
    for start in range(0, 48000 // 2, length):
        wave = np.sin(np.arange(start, start + length) / 17).astype(np.float32) / 2
        frame = av.AudioFrame.from_ndarray(np.stack([wave] * 2), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, start, Fraction(1, 48000)
        for ready in resampler.resample(frame):
            container.mux(sound.encode(ready))
    container.mux(sound.encode(None))


def heard(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.concatenate([f.to_ndarray().ravel() for f in container.decode(audio=0)])


def rewritten(source: Path, target: Path) -> Path:
    audio.check_audio(source, suffix=target.suffix)
    with target.open("w+b") as stream:
        outline = write.FilmOutline(
            suffix=target.suffix,
            frames=len(FILM),
            height=FILM.shape[1],
            width=FILM.shape[2],
            rate=maker.RATE,
        )
        with write.open_encoder(stream, outline, audio_from=source) as encoder:
            for frame in FILM:
                encoder.encode_array(frame)
    return target


@pytest.mark.parametrize("codec", SOUNDS)
def test_every_kind_of_sound_is_kept_without_its_words(codec: str, tmp_path: Path) -> None:
    before, after = SOUNDS[codec]
    source = sounding(tmp_path / f"a{before}", codec)
    target = rewritten(source, tmp_path / f"b{after}")
    assert MARK in source.read_bytes() and MARK not in target.read_bytes()
    told, kept = heard(source), heard(target)
    assert 0.8 < len(kept) / len(told) <= 1.02
    assert np.abs(kept.astype(float)).max() > 0


def test_the_comments_of_vorbis_stay_behind(tmp_path: Path) -> None:
    source = commented(sounding(tmp_path / "a.mkv", "vorbis"), tmp_path / "ada.mkv")
    assert COMMENTS in source.read_bytes() and len(heard(source)) > 10_000
    for suffix in (".mkv", ".webm"):
        kept = rewritten(source, tmp_path / f"b{suffix}")
        assert b"Ada" not in kept.read_bytes() and len(heard(kept)) > 10_000


def commented(plain: Path, target: Path) -> Path:
    """A copy whose sound has comments in its header."""
    with av.open(str(plain)) as source, av.open(str(target), "w") as container:
        video = container.add_stream_from_template(source.streams.video[0])
        sound = container.add_stream_from_template(source.streams.audio[0])
        first, _, setup = audio._split_three_packets(
            source.streams.audio[0].codec_context.extradata or b""
        )
        parts = (first, COMMENTS, setup)
        laced = b"".join(struct.pack(">H", len(part)) + part for part in parts)
        sound.codec_context.extradata = laced
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = sound if packet.stream.type == "audio" else video
                container.mux(packet)
    return target


def test_sound_that_a_container_refuses_only_at_its_packets_is_refused_beforehand(
    tmp_path: Path,
) -> None:
    source = sounding(tmp_path / "a.ts", "aac")
    with pytest.raises(ValueError, match=r"sound that a \.avi can hold, got aac"):
        audio.check_audio(source, suffix=".avi")
    assert len(heard(rewritten(source, tmp_path / "b.mp4"))) > 10_000


def vorbis(comment: bytes, *, laced: bool) -> bytes:
    parts = [b"\x01vorbis".ljust(30, b"\1"), b"\x03vorbis" + comment, b"\x05vorbis" + bytes(99)]
    if not laced:
        return b"".join(struct.pack(">H", len(part)) + part for part in parts)
    lengths = [bytes([255] * (len(part) // 255) + [len(part) % 255]) for part in parts[:2]]
    return b"\x02" + b"".join(lengths) + b"".join(parts)


@pytest.mark.parametrize("laced", [False, True])
def test_a_long_comment_is_cut_out_of_a_vorbis_header(laced: bool) -> None:
    bare = audio.clean_header("vorbis", vorbis(b"", laced=laced))
    assert audio.clean_header("vorbis", vorbis(MARK * 60, laced=laced)) == bare
    assert MARK not in bare and bare.endswith(b"\x05vorbis" + bytes(99))
    assert audio.clean_header("vorbis", bare) == bare


def test_other_headers_keep_what_a_decoder_reads() -> None:
    head = b"OpusHead" + bytes([1, 2]) + bytes(9)
    assert audio.clean_header("opus", head + b"OpusTags" + MARK) == head
    many = b"OpusHead" + bytes([1, 6]) + bytes(8) + b"\1" + bytes(8)
    assert audio.clean_header("opus", many + MARK) == many
    info = bytes(range(1, 35))
    found = audio.clean_header("flac", b"fLaC\x00\x00\x00\x22" + info + MARK)
    assert found[:13] == info[:13] and len(found) == 34 and not any(found[18:])
    assert audio.clean_header("flac", info + MARK) == found
    assert audio.clean_header("alac", info + bytes(2) + MARK) == info + bytes(2)
    assert audio.clean_header("aac", b"\x11\x90V\xe5\x00") == b"\x11\x90V\xe5\x00"


@pytest.mark.parametrize(
    ("codec", "header"),
    [
        ("aac", b"\x10\x04" + MARK),
        ("speex", MARK),
        ("vorbis", MARK),
        ("vorbis", b"\x02"),
        ("vorbis", b"\x00\x1e\x01vorbis"),
        ("opus", MARK),
        ("flac", b"fLaC"),
    ],
)
def test_a_header_that_is_not_understood_is_refused(codec: str, header: bytes) -> None:
    with pytest.raises(BadInput, match=r"leave (the sound|it) out") as error:
        audio.clean_header(codec, header)
    assert "Ada" not in str(error.value)
