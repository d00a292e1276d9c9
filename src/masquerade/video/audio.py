"""Copy the sound of one file into another, packet by packet and nothing else of it.

Tags stay behind, also those inside the header of the sound, and whatever hangs on a packet.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import InputContainer, OutputContainer
from av.stream import Stream

from masquerade.errors import BadInput
from masquerade.video import PICTURES, audio_header, formats, handle, source

_TRIED = 4  # packets that tell whether a container takes them


@contextlib.contextmanager
def copied(
    path: Path | None, target: OutputContainer, *, suffix: str
) -> Iterator[Callable[[Fraction], None]]:
    """Add the first audio stream of ``path`` to ``target``, if there is one.

    Yields:
        What copies the packets that begin before a time, in seconds from the first frame.

    Raises:
        BadInput: if the file cannot be read.
        ValueError: if the target's format does not take this kind of sound.
    """
    with contextlib.nullcontext() if path is None else _opened(path) as found:
        if found is None:
            yield lambda seconds: None
            return
        sound, packets = found
        track = _add(target, sound, suffix=suffix)
        waiting = next(packets, None)

        def copy(seconds: Fraction) -> None:
            nonlocal waiting
            while waiting is not None and _time(waiting) < seconds:
                waiting.stream = track
                target.mux(waiting)
                waiting = next(packets, None)

        yield copy


def check(path: Path, *, suffix: str) -> None:
    """Refuse a file without sound, or with sound that a file of that name cannot hold.

    Raises:
        BadInput: if there is none.
        ValueError: if it does not fit.
    """
    if suffix.lower() in PICTURES:
        raise ValueError(f"Expected no sound for a {suffix}; write a video.")
    form = formats.find(suffix, exact=False)
    with _opened(path) as found:
        if found is None:
            raise BadInput(f"Expected a video with sound to keep, got none in {path}.")
        sound, packets = found
        with tempfile.TemporaryFile() as file, _fitting(sound, suffix):
            with av.open(handle.address(file), "w", format=form.container) as trial:
                track = _add(trial, sound, suffix=suffix)
                trial.start_encoding()
                for packet in islice(packets, _TRIED):
                    packet.stream = track
                    trial.mux(packet)
        for _ in packets:
            pass  # so that damage further on is found before anything is spent


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[AudioStream, Iterator[av.Packet[Stream]]] | None]:
    """The first audio stream and its packets, if there is one."""
    opening = contextlib.ExitStack()
    container, video = opening.enter_context(source.opened(path, max_pixels=formats.MAX_PIXELS))
    try:  # closed by hand: what goes wrong with the frames is not the fault of this file
        if not container.streams.audio:
            yield None
            return
        sound = container.streams.audio[0]
        yield sound, _shifted(_whole(container, sound), start=_start(video))
    finally:
        opening.close()


def _add(target: OutputContainer, sound: AudioStream, *, suffix: str) -> AudioStream:
    header = audio_header.clean(sound.codec_context.name, sound.codec_context.extradata or b"")
    with _fitting(sound, suffix):
        track = target.add_stream_from_template(sound)
        track.codec_context.extradata = header or None
        return track


@contextlib.contextmanager
def _fitting(sound: AudioStream, suffix: str) -> Iterator[None]:
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


def _start(stream: av.VideoStream) -> Fraction:
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))


def _whole(container: InputContainer, sound: AudioStream) -> Iterator[av.Packet[AudioStream]]:
    try:
        yield from container.demux(sound)
    except av.FFmpegError as error:
        raise BadInput("Expected sound that can be read, got damage; leave it out.") from error


def _shifted(
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


def _time(packet: av.Packet[Stream]) -> Fraction:
    return (packet.pts or 0) * packet.time_base
