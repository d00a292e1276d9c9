"""The frame rate that timestamps show, whatever the header says, and the times where it varies."""

from __future__ import annotations

from array import array
from fractions import Fraction

import numpy as np
from av.video.stream import VideoStream

TICK = Fraction(1, 90_000)  # seconds: of all times that are kept, whatever the camera counts in

_MAX_RATE_HZ = Fraction(1000)
_MIN_RATE_HZ = Fraction(1, 1001)
_FALLBACK = Fraction(25)


class Clock:
    """Counts frames and notes their timestamps, 8 bytes each."""

    def __init__(self) -> None:
        self.count = 0
        self._first: int | None = None
        self._last: int | None = None
        self._shortest = self._longest = 0
        self._is_whole = True
        self._every = array("q")

    def tick(self, pts: int | None) -> None:
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
        return bool(moved > max(2, self._span() / (self.count - 1) / 2))

    def times(self, stream: VideoStream) -> tuple[int, ...]:
        """When each frame is shown, in ticks since the first, rising; none if a rate tells it."""
        found: list[int] = []
        if self._has_times(stream):
            ticks = _tick(stream) / TICK
            for pts in self._every:
                time = round((pts - self._every[0]) * ticks)
                found.append(max(time, found[-1] + 1) if found else 0)
        return tuple(found)

    def rate(self, stream: VideoStream) -> tuple[Fraction, str]:
        """Frames a second, and a sentence where the header could not be followed.

        The header's rate is taken where the timestamps agree with it, because it is exact; else
        the average over the timestamps; else 25.
        """
        said = [
            rate for rate in (stream.average_rate, stream.guessed_rate, stream.base_rate) if rate
        ]
        sane = [rate for rate in said if _MIN_RATE_HZ <= rate <= _MAX_RATE_HZ]
        tick, has_times = _tick(stream), self._has_times(stream)
        span = self._span() * tick
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
        return _FALLBACK, "No frame rate can be told from the file; 25 Hz is assumed."

    def _has_times(self, stream: VideoStream) -> bool:
        """Whether no rate tells when frames are shown, and their timestamps do.

        An even rate that is too high is an error of the file; one that is low is a time-lapse.
        """
        span = self._span() * _tick(stream)
        if span <= 0 or self._shortest < 0:
            return False
        return self.is_variable or (self.count - 1) / span < _MIN_RATE_HZ

    def _span(self) -> int:
        if not self._is_whole or self._first is None or self._last is None:
            return 0
        return self._last - self._first


def _tick(stream: VideoStream) -> Fraction:
    return stream.time_base or Fraction(1, 1000)
