"""Recordings are checked at the door; messages give rule, value and remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade import Evidence, Photo, Scores, Signal, Utility, Video
from masquerade.errors import BadInput

FRAMES = np.zeros((2, 4, 5, 3), dtype=np.uint8)


def test_good_recordings_are_taken() -> None:
    video = Video(
        frames=FRAMES,
        rate_hz=25,
        person_mask=np.zeros((2, 4, 5), dtype=bool),
        joints=np.full((2, 16, 2), np.nan),
    )
    assert video.frames.shape == (2, 4, 5, 3)
    signal = Signal(
        values=np.zeros((9, 3), np.float32), rate_hz=20, activity=np.zeros(9, int), subject="s1"
    )
    assert signal.values.dtype == np.float32
    Photo(
        image=FRAMES[0],
        joints=np.zeros((16, 2)),
        visible=np.ones(16, dtype=bool),
        head_px=12.0,
        box=(0, 0, 5, 4),
    )


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"frames": FRAMES.astype(float)}, TypeError, "uint8 RGB, got dtype float64"),
        ({"frames": FRAMES[..., 0]}, ValueError, r"\(T, H, W, 3\), got frames.shape=\(2, 4, 5\)"),
        ({"frames": FRAMES[..., :2]}, ValueError, "3=3"),
        ({"frames": FRAMES[:0]}, BadInput, "at least one pixel"),
        ({"rate_hz": 0}, ValueError, "rate_hz to be finite and > 0, got rate_hz=0"),
        ({"rate_hz": float("nan")}, ValueError, "rate_hz=nan"),
        ({"person_mask": np.zeros((2, 4, 6), dtype=bool)}, ValueError, "W=5"),
        ({"person_mask": np.zeros((2, 4, 5))}, TypeError, "bool"),
        ({"joints": np.zeros((3, 16, 2))}, ValueError, "2 frames, got 3"),
    ],
)
def test_bad_videos_are_refused(fields: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Video(**({"frames": FRAMES, "rate_hz": 25} | fields))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"values": np.zeros((9, 3))}, TypeError, "float32, got float64"),
        ({"values": np.zeros(9, np.float32)}, ValueError, r"\(T, C\)"),
        ({"values": np.zeros((0, 3), np.float32)}, BadInput, "at least one sample"),
        ({"values": np.full((9, 3), np.nan, np.float32)}, BadInput, "NaN"),
        ({"activity": np.zeros(8, int)}, ValueError, "T=9"),
        ({"activity": np.zeros(9)}, TypeError, "integers"),
    ],
)
def test_bad_signals_are_refused(fields: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Signal(**({"values": np.zeros((9, 3), np.float32), "rate_hz": 20} | fields))


def test_bad_photos_are_refused() -> None:
    good: dict[str, Any] = dict(
        image=FRAMES[0],
        joints=np.zeros((16, 2)),
        visible=np.ones(16, dtype=bool),
        head_px=12.0,
        box=(0, 0, 5, 4),
    )
    for fields in (
        {"joints": np.zeros((16, 3))},
        {"visible": np.ones(15, dtype=bool)},
        {"head_px": -1.0},
        {"box": (0, 0, 0, 4)},
        {"image": FRAMES},
    ):
        with pytest.raises(ValueError, match="Expected"):
            Photo(**(good | fields))


def test_evidence_refutes_and_never_proves() -> None:
    evidence = Evidence(
        epsilon_at_least=8.6,
        delta=1e-4,
        confidence=0.95,
        trials=20000,
        attack="frame",
        assumes="nothing",
    )
    assert evidence.refutes(8.0) and not evidence.refutes(9.0)
    with pytest.raises(ValueError, match="trials"):
        Evidence(epsilon_at_least=1.0, delta=0.0, confidence=0.9, trials=0, attack="", assumes="")


def test_scores_and_utility_are_checked() -> None:
    Scores(without=np.zeros(3), within=np.ones(4), attack="sum")
    with pytest.raises(ValueError, match="NaN"):
        Scores(without=np.array([np.nan]), within=np.ones(4), attack="sum")
    with pytest.raises(ValueError, match="finite"):
        Utility(measure="PSNR", value=float("inf"))
    assert Utility(measure="PSNR", value=20.0, in_unit="dB").is_private
