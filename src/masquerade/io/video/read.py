"""Read frames: as a stream, or any stretch of them by number.

The frame rate that timestamps show, whatever the header says, and the times where it varies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io.video import MAX_PIXELS, source

if TYPE_CHECKING:
    from av.video.stream import VideoStream

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

    from masquerade.io.video import colour
else:
    colour = lazy_module("masquerade.io.video.colour")


TICK = Fraction(1, 90_000)  # seconds: of all times that are kept, whatever the camera counts in

_MAX_RATE_HZ = Fraction(1000)
_MIN_RATE_HZ = Fraction(1, 1001)
_FALLBACK_RATE_HZ = Fraction(25)


class FrameClock:
    """Counts frames and notes their timestamps, 8 bytes each."""

    def __init__(self) -> None:
        self.count = 0
        self._first: int | None = None
        self._last: int | None = None
        self._shortest = self._longest = 0
        self._is_whole = True
        self._every = array("q")

    def note_frame(self, pts: int | None) -> None:
        """Take note of the next frame."""
        if pts is None:
            self._is_whole = False
        elif self._last is None:
            self._first = pts
        else:
            step = pts - self._last
            self._shortest = step if self.count == 1 else min(self._shortest, step)
            self._longest = step if self.count == 1 else max(self._longest, step)
        if pts is not None and self._is_whole:
            self._every.append(pts)
        self._last = pts
        self.count += 1

    @property
    def is_variable(self) -> bool:
        """Whether the steps differ by a tenth, or an even rate would move a frame by half a step.

        Two ticks of either are rounding.
        """
        if not self._is_whole or self.count < 3:
            return False
        spread = self._longest - self._shortest
        if spread > 2 and spread * 20 > self._longest + self._shortest:
            return True
        shown = np.array(self._every, float)
        moved = np.abs(shown - np.linspace(shown[0], shown[-1], self.count)).max()
        return bool(moved > max(2, self._total_ticks() / (self.count - 1) / 2))

    def list_times(self, stream: VideoStream) -> tuple[int, ...]:
        """When each frame is shown, in ticks since the first, rising; none if a rate tells it."""
        found: list[int] = []
        if self._has_times(stream):
            ticks = _find_tick(stream) / TICK
            for pts in self._every:
                time = round((pts - self._every[0]) * ticks)
                found.append(max(time, found[-1] + 1) if found else 0)
        return tuple(found)

    def find_rate(self, stream: VideoStream) -> tuple[Fraction, str]:
        """Frames a second, and a sentence where the header could not be followed.

        The header's rate is taken where the timestamps agree with it, because it is exact; else
        the average over the timestamps; else 25.
        """
        said = [
            rate for rate in (stream.average_rate, stream.guessed_rate, stream.base_rate) if rate
        ]
        sane = [rate for rate in said if _MIN_RATE_HZ <= rate <= _MAX_RATE_HZ]
        tick, has_times = _find_tick(stream), self._has_times(stream)
        span = self._total_ticks() * tick
        if span > 0:
            steps = self.count - 1
            for rate in sane:
                is_near = abs(steps / rate - span) <= 2 * tick + span / 500
                if is_near and not (self.is_variable or has_times):
                    return rate, ""
            taken = min(max(steps / span, _MIN_RATE_HZ), _MAX_RATE_HZ)
            if has_times and taken != steps / span:
                shown = f"{float(steps / span):g} Hz on average, said as {float(taken):g}"
                return taken, f"The frames come at {shown}; each keeps its time."
            if taken == steps / span:
                measured = taken.limit_denominator(1001)
                if self.is_variable or not said:
                    return measured, ""
                header = float(said[0])
                return measured, f"The header says {header:g} Hz; {float(measured):g} are shown."
        elif sane:
            return sane[0], ""
        return _FALLBACK_RATE_HZ, "No frame rate can be told from the file; 25 Hz is assumed."

    def _has_times(self, stream: VideoStream) -> bool:
        """Whether no rate tells when frames are shown, and their timestamps do.

        An even rate that is too high is an error of the file; one that is low is a time-lapse.
        """
        span = self._total_ticks() * _find_tick(stream)
        if span <= 0 or self._shortest < 0:
            return False
        return self.is_variable or (self.count - 1) / span < _MIN_RATE_HZ

    def _total_ticks(self) -> int:
        if not self._is_whole or self._first is None or self._last is None:
            return 0
        return self._last - self._first


def _find_tick(stream: VideoStream) -> Fraction:
    return stream.time_base or Fraction(1, 1000)


# Codecs in which every packet is one frame; in others some packets show nothing.
_ONE_FRAME_CODECS = {"h264", "hevc", "vp9", "av1", "libdav1d", "mjpeg", "ffv1", "prores", "dnxhd"}
_INDEX_CONTAINERS = ("mov", "matroska", "avi")  # containers that tell where their packets are
_INTRA_CODECS = {"utvideo", "huffyuv", "ffvhuff", "magicyuv", "rawvideo", "png", "mjpeg", "ffv1"}


def read_frames(
    path: Path, *, threads: int = 0, max_pixels: int = MAX_PIXELS
) -> Generator[np.ndarray, None, None]:
    """Yield every frame as an upright (H, W, 3) uint8 RGB array.

    Memory holds one frame and what the codec keeps. Rotation is baked into the pixels; colour
    matrix and range are honoured (untagged: BT.709 from 720 lines on, BT.601 below); grey becomes
    RGB, more than 8 bits become 8, alpha is dropped; fields stay interlaced and the sample aspect
    ratio stays a tag. The file is closed at the end, at an error, and when the stream is closed.

    Args:
        path: a file of one of ``SUFFIXES``; its content decides, not its name.
        threads: of the decoder; 0 lets it choose.
        max_pixels: of a frame; larger ones are refused.

    Raises:
        BadInput: if the file is missing, truncated, damaged, empty, too large, or changes its size.
    """
    with source.open_video(path, max_pixels=max_pixels) as (container, stream):
        show = make_rgb_converter(path, container)
        for frame in source.decode_frames(container, stream, threads=threads):
            yield show(frame)


def make_rgb_converter(path: Path, container: InputContainer) -> Callable[[VideoFrame], np.ndarray]:
    """What makes an upright RGB array of a frame of an open file.

    Turns are looked up only where the rotation changes: a frame whose side data were looked at is
    kept until Python next collects its cycles, and large frames would fill the memory long before.
    """
    to_rgb, turns = colour.ToRgb(), dict[int, source.Turn]()
    held = source.read_picture_turn(path) if source.is_picture(container) else None

    def convert_to_rgb(frame: VideoFrame) -> np.ndarray:
        if held is None and frame.rotation not in turns:
            turns[frame.rotation] = source.read_frame_turn(frame)
        return source.turn_array(to_rgb(frame), held or turns[frame.rotation])

    return convert_to_rgb


def read_segment(path: Path, start: int, stop: int) -> np.ndarray:
    """Frames ``start`` to ``stop``, the latter not included, as a (T, H, W, 3) array.

    Equal to that stretch of ``read_frames``. It decodes from the last keyframe before it where the
    timestamps tell for certain which frame is which, and from the beginning otherwise.

    Raises:
        BadInput: as ``read_frames``, and if there are fewer than ``stop`` frames.
        ValueError: unless 0 <= start < stop.
    """
    _check_stretch(start, stop)
    try:
        found = _read_by_seeking(path, start, stop)
    except BadInput:
        found = None  # what is wrong will be found again, and in its place
    if found is None:
        every = read_frames(path)
        found = list(islice(every, start, stop))
        every.close()
    if len(found) < stop - start:
        total = start + len(found) if found else f"at most {start}"
        raise BadInput(_format_too_few(path, stop, total))
    return np.stack(found)


def read_whole(path: Path) -> tuple[np.ndarray, float]:
    """Every frame as a (T, H, W, 3) array, and the frames a second, by one decoding.

    The rate is the one that ``probe`` tells.

    Raises:
        BadInput: as ``read_frames``.
    """
    return _decode_timed(path, 0, None)


def read_timed_segment(path: Path, start: int, stop: int) -> tuple[np.ndarray, float]:
    """What ``read_segment`` gives, and the frames a second of the whole file, as ``read_whole``
    tells it.

    Where a packet need not be a frame, only decoding all of the file tells the rate.

    Raises:
        BadInput: as ``read_segment``.
        ValueError: as ``read_segment``.
    """
    _check_stretch(start, stop)
    rate = _find_indexed_rate(path)
    if rate is None:
        return _decode_timed(path, start, stop)
    return read_segment(path, start, stop), rate


def _decode_timed(path: Path, start: int, stop: int | None) -> tuple[np.ndarray, float]:
    """Decode all, keep the frames from ``start`` to ``stop``, and watch the time."""
    with source.open_video(path) as (container, stream):
        clock, show = FrameClock(), make_rgb_converter(path, container)
        film, kept = np.empty((0, 0, 0, 3), np.uint8), 0
        for frame in source.decode_frames(container, stream):
            if start <= clock.count and (stop is None or clock.count < stop):
                shown = show(frame)
                if kept == len(film):  # in place: a list and its stack would take twice the memory
                    film.resize((kept + kept // 4 + 16, *shown.shape), refcheck=False)
                film[kept] = shown
                kept += 1
            clock.note_frame(frame.pts)
        rate = Fraction(25) if source.is_picture(container) else clock.find_rate(stream)[0]
    if stop is not None and clock.count < stop:
        raise BadInput(_format_too_few(path, stop, clock.count))
    film.resize((kept, *film.shape[1:]), refcheck=False)
    return film, float(rate)


def _find_indexed_rate(path: Path) -> float | None:
    """Frames a second by the timestamps of packets, or None where only decoding tells them."""
    try:
        with source.open_video(path) as (container, stream):
            index = _index_frames(container, stream)
            if index is None:
                return None
            clock = FrameClock()
            for pts in index.shown:
                clock.note_frame(pts)
            return float(clock.find_rate(stream)[0])
    except BadInput:
        return None  # what is wrong will be found again, and in its place


def _check_stretch(start: int, stop: int) -> None:
    if not 0 <= start < stop:
        raise ValueError(f"Expected 0 <= start < stop, got start={start}, stop={stop}.")


def _format_too_few(path: Path, wanted: int, total: int | str) -> str:
    return f"Expected {wanted} frames in {path}, got {total}; ask for fewer."


@dataclass(frozen=True, kw_only=True)
class _FrameIndex:
    """Timestamps of the frames in the order shown, and where decoding can begin."""

    shown: list[int]
    keys: list[int]
    key_places: list[int]


def _read_by_seeking(path: Path, start: int, stop: int) -> list[np.ndarray] | None:
    with source.open_video(path) as (container, stream):
        index = _index_frames(container, stream)
        if index is None or stop > len(index.shown):
            return None
        wanted = index.shown[start:stop]
        place = bisect_right(index.keys, wanted[0]) - 1
        if place < 1:
            return None  # the beginning is as near
        container.seek(index.key_places[place], stream=stream)
        found: list[np.ndarray] = []
        show = make_rgb_converter(path, container)
        for frame in source.decode_frames(container, stream):
            if frame.pts is None or (frame.pts < wanted[0] and found):
                return None
            if frame.pts < wanted[0]:
                continue
            if frame.pts != wanted[len(found)]:
                return None
            found.append(show(frame))
            if len(found) == len(wanted):
                return found
    return None


def _index_frames(container: InputContainer, stream: VideoStream) -> _FrameIndex | None:
    """Number the frames by their packets, or None where a packet need not be a frame."""
    if not any(name in container.format.name for name in _INDEX_CONTAINERS):
        return None
    one_each = (
        _INTRA_CODECS if container.format.name == "avi" else _ONE_FRAME_CODECS | _INTRA_CODECS
    )
    if stream.codec_context.name not in one_each or source.is_picture(container):
        return None
    is_by_pts = "matroska" in container.format.name  # what the file's own index is sorted by
    shown: list[int] = []
    keys: list[tuple[int, int]] = []
    for packet in source.demux_packets(container, stream):
        if packet.size == 0 and packet.dts is None:
            break  # the empty packet at the end
        if packet.pts is None or packet.size == 0:
            return None
        if packet.is_keyframe:
            keys.append((packet.pts, packet.pts if is_by_pts else packet.dts or packet.pts))
        if not keys or packet.pts < keys[0][0]:
            return None  # shown before anything can be decoded: such frames get lost
        if not packet.is_discard:
            shown.append(packet.pts)
    shown.sort()
    if len(set(shown)) != len(shown) or keys != sorted(keys):
        return None
    return _FrameIndex(
        shown=shown, keys=[pts for pts, _ in keys], key_places=[dts for _, dts in keys]
    )
