"""Copy the sound of one file into another, packet by packet and nothing else of it.

Tags stay behind, also those inside the header of the sound, and whatever hangs on a packet.

The part of a sound's header that a decoder needs, without what a person or camera wrote there.

A header travels with copied sound whatever else is dropped. In Vorbis it holds comments (names,
places, dates); in others, bytes that no decoder reads. What is not known here is refused.
"""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade._optional import av
from masquerade.errors import BadInput
from masquerade.io.video import PICTURES, formats, source

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer
    from av.stream import Stream


# The bytes of the header that decoders read; where there are more, the rest is left out.
_HEADER_BYTES = {
    "alac": 36,
    "adpcm_ms": 32,
    "adpcm_ima_wav": 2,
    "wmav1": 4,
    "wmav2": 10,
    "gsm_ms": 2,
}
_HEADERLESS = ("mp1", "mp2", "mp3", "ac3", "eac3", "pcm_", "amrnb", "amrwb", "libopencore", "dca")
_AAC_BYTES = 8  # longer ones hold a table of channels, which has room for a comment
_NO_COMMENTS = b"\x03vorbis" + bytes(8) + b"\x01"


def clean_header(codec: str, header: bytes) -> bytes:
    """The header without anything that only a person would read.

    Args:
        codec: FFmpeg's name of the decoder.
        header: what FFmpeg calls extradata.

    Raises:
        BadInput: if it is damaged, or its parts cannot be told apart.

    Example:
        >>> clean_header("mp3float", b"Ada"), clean_header("alac", bytes(36) + b"Ada") == bytes(36)
        (b'', True)
    """
    if not header or codec.startswith(_HEADERLESS):
        return b""
    if codec in ("vorbis", "libvorbis"):
        return _clean_vorbis(header)
    if codec in ("opus", "libopus"):
        return _clean_opus(header)
    if codec == "flac":
        return _clean_flac(header)
    if codec.startswith("aac") and len(header) <= _AAC_BYTES:
        return header
    if codec in _HEADER_BYTES:
        return header[: _HEADER_BYTES[codec]]
    raise BadInput(
        f"Expected sound whose header is known to hold nothing but sound, got {len(header)} bytes "
        f"of {codec}; convert the sound to AAC with one or two channels, or leave it out."
    )


def _clean_vorbis(header: bytes) -> bytes:
    """The first and the third of its three packets, and between them no comments."""
    first, _, setup = _split_three_packets(header)
    if (first[:7], setup[:7]) != (b"\x01vorbis", b"\x05vorbis"):
        raise BadInput(_format_damaged("vorbis"))
    laced = bytes([2, len(first[:30]), len(_NO_COMMENTS)])
    return laced + first[:30] + _NO_COMMENTS + setup


def _split_three_packets(header: bytes) -> tuple[bytes, bytes, bytes]:
    """Both ways of FFmpeg: each length in two bytes before its packet, or Xiph's lacing."""
    found: list[bytes] = []
    if header[:2] == b"\x00\x1e":
        place = 0
        while place + 2 <= len(header) and len(found) < 3:
            length = struct.unpack_from(">H", header, place)[0]
            found.append(header[place + 2 : place + 2 + length])
            place += 2 + length
    elif header[:1] == b"\x02":
        place, lengths = 1, [0, 0]
        for number in range(2):
            while header[place : place + 1] == b"\xff":
                lengths[number] += 255
                place += 1
            lengths[number] += sum(header[place : place + 1])
            place += 1
        middle, end = place + lengths[0], place + sum(lengths)
        found = [header[place:middle], header[middle:end], header[end:]]
    if len(found) != 3:
        raise BadInput(_format_damaged("vorbis"))
    return found[0], found[1], found[2]


def _clean_opus(header: bytes) -> bytes:
    """OpusHead: 19 bytes, and a table of channels where there are more than two (RFC 7845)."""
    if header[:8] != b"OpusHead" or len(header) < 19:
        raise BadInput(_format_damaged("opus"))
    return header[:19] if header[18] == 0 else header[: 21 + header[9]]


def _clean_flac(header: bytes) -> bytes:
    """STREAMINFO, less the number of samples and the digest of the whole sound (RFC 9639)."""
    if header[:4] == b"fLaC":
        header = header[8:]
    if len(header) < 34:
        raise BadInput(_format_damaged("flac"))
    return header[:13] + bytes([header[13] & 0xF0]) + bytes(20)


def _format_damaged(codec: str) -> str:
    return f"Expected a whole header of {codec}, got a damaged one; leave the sound out."


_NUM_TRIAL_PACKETS = 4  # packets that tell whether a container takes them


@contextlib.contextmanager
def copy_audio(
    path: Path | None, target: OutputContainer, *, suffix: str
) -> Iterator[Callable[[Fraction], None]]:
    """Add the first audio stream of ``path`` to ``target``, if there is one.

    Yields:
        What copies the packets that begin before a time, in seconds from the first frame.

    Raises:
        BadInput: if the file cannot be read.
        ValueError: if the target's format does not take this kind of sound.
    """
    with contextlib.nullcontext() if path is None else _open_audio(path) as found:
        if found is None:
            yield lambda seconds: None
            return
        sound, packets = found
        track = _add_audio(target, sound, suffix=suffix)
        waiting = next(packets, None)

        def copy_until(seconds: Fraction) -> None:
            nonlocal waiting
            while waiting is not None and _packet_time(waiting) < seconds:
                waiting.stream = track
                target.mux(waiting)
                waiting = next(packets, None)

        yield copy_until


def check_audio(path: Path, *, suffix: str) -> None:
    """Refuse a file without sound, or with sound that a file of that name cannot hold.

    Raises:
        BadInput: if there is none.
        ValueError: if it does not fit.
    """
    if suffix.lower() in PICTURES:
        raise ValueError(f"Expected no sound for a {suffix}; write a video.")
    form = formats.find_format(suffix, exact=False)
    with _open_audio(path) as found:
        if found is None:
            raise BadInput(f"Expected a video with sound to keep, got none in {path}.")
        sound, packets = found
        with tempfile.TemporaryFile() as file, _explain_misfit(sound, suffix):
            with av.open(source.file_address(file), "w", format=form.container) as trial:
                track = _add_audio(trial, sound, suffix=suffix)
                trial.start_encoding()
                for packet in islice(packets, _NUM_TRIAL_PACKETS):
                    packet.stream = track
                    trial.mux(packet)
        for _ in packets:
            pass  # so that damage further on is found before anything is spent


@contextlib.contextmanager
def _open_audio(path: Path) -> Iterator[tuple[AudioStream, Iterator[av.Packet[Stream]]] | None]:
    """The first audio stream and its packets, if there is one."""
    opening = contextlib.ExitStack()
    container, video = opening.enter_context(source.open_video(path, max_pixels=formats.MAX_PIXELS))
    try:  # closed by hand: what goes wrong with the frames is not the fault of this file
        if not container.streams.audio:
            yield None
            return
        sound = container.streams.audio[0]
        yield sound, _shift_packets(_list_whole_packets(container, sound), start=_find_start(video))
    finally:
        opening.close()


def _add_audio(target: OutputContainer, sound: AudioStream, *, suffix: str) -> AudioStream:
    header = clean_header(sound.codec_context.name, sound.codec_context.extradata or b"")
    with _explain_misfit(sound, suffix):
        track = target.add_stream_from_template(sound)
        track.codec_context.extradata = header or None
        return track


@contextlib.contextmanager
def _explain_misfit(sound: AudioStream, suffix: str) -> Iterator[None]:
    """Say of what FFmpeg cannot put together that it does not fit."""
    try:
        yield
    except BadInput:
        raise
    except (ValueError, av.FFmpegError) as error:
        raise ValueError(
            f"Expected sound that a {suffix} can hold, got {sound.codec_context.name}; "
            "write a .mkv, or leave the sound out."
        ) from error


def _find_start(stream: av.VideoStream) -> Fraction:
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))


def _list_whole_packets(
    container: InputContainer, sound: AudioStream
) -> Iterator[av.Packet[AudioStream]]:
    try:
        yield from container.demux(sound)
    except av.FFmpegError as error:
        raise BadInput("Expected sound that can be read, got damage; leave it out.") from error


def _shift_packets(
    packets: Iterator[av.Packet[AudioStream]], *, start: Fraction
) -> Iterator[av.Packet[Stream]]:
    """Packets on a clock that begins with the first frame; those before it are left out."""
    for packet in packets:
        if packet.dts is None or packet.pts is None:
            continue  # the empty packet at the end
        bare = av.Packet(bytes(packet))  # what hangs on a packet besides its sound is left behind
        bare.time_base, bare.duration = packet.time_base, packet.duration or 0
        bare.is_keyframe = packet.is_keyframe
        shift = round(start / packet.time_base)
        bare.pts, bare.dts = packet.pts - shift, packet.dts - shift
        if bare.pts + bare.duration > 0:
            yield bare


def _packet_time(packet: av.Packet[Stream]) -> Fraction:
    return (packet.pts or 0) * packet.time_base
