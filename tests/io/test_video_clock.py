"""Times of frames: what is called a constant rate, and what a film of none keeps."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import video_files as maker
from masquerade.io.video import probe
from masquerade.io.video.read import FrameClock
from video_files import Kind

FILM = maker.moving(30, 48, 64)


def test_a_rate_that_drifts_is_variable_though_its_steps_hardly_differ(tmp_path: Path) -> None:
    steps = [33, 34] * 60 + [36] * 120
    pts = [0, *(int(time) for time in np.cumsum(steps))]
    film = np.resize(FILM, (len(pts), *FILM.shape[1:]))
    found = probe.probe(maker.make(tmp_path / "a.mp4", film, Kind(pts=pts)))
    assert found.is_variable_rate and found.times == tuple(90 * time for time in pts)


@pytest.mark.parametrize("rate", [Fraction(25), Fraction(30000, 1001), Fraction(600)])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".flv"])
def test_a_rate_that_the_container_rounds_is_constant(
    suffix: str, rate: Fraction, tmp_path: Path
) -> None:
    kind = Kind(suffix=suffix, rate=rate)
    found = probe.probe(
        maker.make(tmp_path / f"a{suffix}", np.resize(FILM, (200, 16, 16, 3)), kind)
    )
    assert found.frames == 200 and not found.is_variable_rate and found.times == ()


@pytest.mark.parametrize(("per_second", "rate"), [(1000, "30000/1001"), (90_000, "24000/1001")])
def test_an_hour_of_rounded_timestamps_is_constant(per_second: int, rate: str) -> None:
    clock = FrameClock()
    for number in range(100_000):
        clock.note_frame(round(number * per_second / Fraction(rate)))
    assert not clock.is_variable


@pytest.mark.parametrize(
    ("pts", "average"),
    [
        ((0, 3600_000, 3600_040, 9000_000), "0.000333333"),
        ((0, 3600_000, 7200_000), "0.000277778"),
        ((0, 1, 5, 6, 9), "4000"),
    ],
)
def test_times_are_kept_however_slow_or_fast_a_film_is(pts: Sequence[int], average: str) -> None:
    clock, ticks = FrameClock(), 1000 if average.startswith("0") else 9000
    said: Any = SimpleNamespace(time_base=Fraction(1, ticks))
    said.average_rate = said.guessed_rate = said.base_rate = None
    for each in pts:
        clock.note_frame(each)
    assert clock.list_times(said) == tuple(each * 90_000 // ticks for each in pts)
    rate, doubt = clock.find_rate(said)
    assert Fraction(1, 1001) <= rate <= 1000 and f"at {average} Hz on average" in doubt
