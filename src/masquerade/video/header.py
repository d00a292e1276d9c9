"""What the beginning of a video file says, for an estimate: its header and its first frame.

Headers lie, so a release counts frames by decoding (`video.probe`). To say beforehand what it would
take, this is enough, and it takes no longer for a long film than for a short one.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from av.container import InputContainer
from av.video.stream import VideoStream

from masquerade.video import MAX_PIXELS, source
from masquerade.video.clock import Clock
from masquerade.video.probe import Contents, Counting, contents_of

_MICROSECOND = Fraction(1, 1_000_000)
_AGREE = 10  # count and duration agree if they differ by less than one in so many


def told(path: Path, *, max_pixels: int = MAX_PIXELS) -> Contents:
    """What the header tells of a file; only its first frame is decoded.

    Where the header has no count, or one that its duration contradicts, the count is about right
    (`Counting.ABOUT`); without either, packets are counted.

    Raises:
        BadInput: if the file is missing, breaks off, is of no kind that is read or too large, or
            its first frame cannot be decoded. Damage further on is not found.
    """
    with source.opened(path, max_pixels=max_pixels) as (container, stream):
        with closing(source.decoded(container, stream, threads=1)) as frames:
            first = next(frames)
        found = contents_of(path, container, stream, first, Clock())
        count, counting = _count(container, stream, found.rate)
        return replace(found, frames=count, counting=counting, warnings=())


def _count(container: InputContainer, stream: VideoStream, rate: Fraction) -> tuple[int, Counting]:
    if source.is_picture(container):
        return 1, Counting.DECODED
    seconds = (stream.duration or 0) * (stream.time_base or Fraction(0))
    seconds = seconds or (container.duration or 0) * _MICROSECOND
    by_time, said = round(seconds * rate), stream.frames
    if said > 0 and abs(said - by_time) * _AGREE <= max(by_time, 2 * _AGREE):
        return said, Counting.HEADER
    if max(by_time, said) > 0:
        return max(by_time, said), Counting.ABOUT
    container.seek(0)
    packets = sum(packet.size > 0 for packet in source.packets(container, stream))
    return max(packets, 1), Counting.ABOUT
