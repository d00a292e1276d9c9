"""Nobody who was missed for a moment becomes a part of the place; films keep their rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cv2")

from masquerade.avatars.avatar import Avatar
from masquerade.avatars.plates import BackgroundPlates, FramePlacement
from masquerade.noise import Noise
from masquerade.recordings import Video


def test_who_was_missed_for_a_moment_and_hidden_ever_after_is_no_place() -> None:
    place = np.random.default_rng(0).integers(60, 120, (96, 128, 3), np.uint8)
    found = []
    somebody = np.zeros(place.shape[:2], bool)
    somebody[30:60, 40:60] = True
    frame = np.where(somebody[..., None], np.uint8(255), place)
    still = FramePlacement(plate=0, to_plate=np.eye(3), begins=True)
    for known in ([], [(somebody, still)] * 2):
        plates = BackgroundPlates(*place.shape[:2])
        plates.add_view(frame, np.zeros_like(somebody), still)
        plates.add_view(frame, somebody, replace(still, begins=False))
        plates.finish_plates(known)
        found.append(plates.view_place(still)[0].copy())
        plates.close()
    assert (found[0][somebody] == 255).all() and (found[1][somebody] < 255).any(axis=1).all()
    assert np.array_equal(found[1][~somebody], place[~somebody])


def test_a_film_in_memory_is_taken_at_its_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []

    def look(self: Avatar, frames: object, shape: object, *, rate_hz: float, noise: object) -> None:
        rates.append(rate_hz)
        raise RuntimeError

    monkeypatch.setattr(Avatar, "first_pass", look)
    film = Video(frames=np.zeros((2, 32, 32, 3), np.uint8), rate_hz=10.0)
    with pytest.raises(RuntimeError):
        Avatar().apply(film, Noise(seed=1))
    assert rates == [10.0]
