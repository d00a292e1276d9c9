"""The first mechanism: units, calibration as really computed, and what it does to recordings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from masquerade import Noise, Signal, Video, make_mechanism, release_value
from masquerade.accounting import compute_epsilon
from masquerade.errors import BadInput
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.tradeoff import gaussian_mu

UNITS: list[dict[str, Any]] = [
    {"unit": "value"},
    {"unit": "pixels", "pixels": 2},
    {"unit": "tube", "pixels": 2},
    {"unit": "frame"},
    {"unit": "video"},
    {"unit": "record"},
    {"unit": "subject"},
]
SHAPE = (4, 3, 2, 3)


def mechanism(**fields: Any) -> GaussianNoise:
    chosen = {"epsilon": 8, "delta": 1e-4, "unit": "value", "low": 0.0, "high": 255.0} | fields
    return GaussianNoise(**chosen)


@pytest.mark.parametrize(
    ("fields", "touched"),
    list(zip(UNITS, [1, 6, 24, 18, 72, 72, 72], strict=True)),
    ids=lambda f: f["unit"] if isinstance(f, dict) else "",
)
@pytest.mark.parametrize(("relation", "share"), [("replace_one", 1.0), ("zero_out", 0.5)])
def test_sigma_follows_the_units_of_an_array(
    fields: dict[str, Any], touched: int, relation: str, share: float
) -> None:
    sigma = mechanism(relation=relation, **fields).plan(SHAPE).expected_error
    ideal = share * 255 * math.sqrt(touched) / gaussian_mu(8, 1e-4)
    assert ideal < sigma <= ideal * (1 + 1e-5)  # the rounding is paid for, and hardly costs


@pytest.mark.parametrize("fields", UNITS, ids=lambda f: f["unit"])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_worst_case_is_mu_apart_and_no_more(fields: dict[str, Any], relation: str) -> None:
    chosen = mechanism(relation=relation, **fields)
    value, neighbour = chosen.worst_case(SHAPE)
    scale = chosen.compute_scale(SHAPE)
    rounding = scale.grid * math.sqrt(np.sum(value != neighbour))
    apart = (float(np.linalg.norm(value - neighbour)) + rounding) / scale.sigma
    assert 0.9999 * gaussian_mu(8, 1e-4) <= apart <= gaussian_mu(8, 1e-4)


@given(
    st.floats(0.01, 50),
    st.floats(1e-10, 0.1),
    st.sampled_from(UNITS),
    st.sampled_from(["replace_one", "zero_out"]),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=60)
def test_the_event_meets_the_target_exactly(
    target: float, delta: float, fields: dict[str, Any], relation: str, high: float
) -> None:
    chosen = mechanism(epsilon=target, delta=delta, relation=relation, high=high, **fields)
    reached = compute_epsilon(chosen.event(SHAPE), delta=delta, relation=relation)
    assert target * (1 - 1e-3) <= reached <= target
    stated = chosen.guarantee(SHAPE).epsilon
    assert stated is not None and reached <= stated <= reached + 1.01e-4


def test_the_event_is_sound_under_the_other_relation_too() -> None:
    chosen = mechanism()
    other = compute_epsilon(chosen.event(SHAPE), delta=1e-4, relation="zero_out")
    scale = chosen.compute_scale(SHAPE)
    truth = (255 / 2 + scale.grid) / scale.sigma  # a value moved to the middle, then rounded
    assert compute_epsilon(chosen.event(SHAPE), delta=1e-4, relation="replace_one") <= 8
    assert other >= 0.999999 * _epsilon_of(truth)


def _epsilon_of(mu: float) -> float:
    from masquerade.tradeoff import gaussian_epsilon

    return gaussian_epsilon(mu, 1e-4)


def test_noise_has_the_stated_size_and_values_are_clamped() -> None:
    chosen = mechanism(low=0.0, high=1.0)
    value = np.full(200_000, 50.0)
    noisy = np.asarray(chosen.apply(value, Noise(seed=4)))
    sigma = chosen.plan(value.shape).expected_error
    assert stats.kstest((noisy - 1.0) / sigma, "norm").pvalue > 0.01
    assert stats.kstest((noisy - 1.0) / (1.02 * sigma), "norm").pvalue < 1e-4
    grid = chosen.compute_scale(value.shape).grid
    assert np.all(noisy / grid == np.rint(noisy / grid))


def test_signals_and_videos_lose_their_labels() -> None:
    signal = Signal(
        values=np.zeros((50, 3), np.float32), rate_hz=20, activity=np.arange(50), subject="bob"
    )
    done = release_value(signal, mechanism(low=-20.0, high=20.0))
    assert isinstance(done.value, Signal)
    assert done.value.subject is None and done.value.activity is None
    assert done.value.values.shape == (50, 3) and done.value.rate_hz == 20
    video = Video(
        frames=np.full((3, 8, 8, 3), 100, np.uint8),
        rate_hz=25,
        subject="bob",
        place="ward 3",
        activity="sit",
        person_mask=np.zeros((3, 8, 8), dtype=bool),
    )
    released = release_value(video, mechanism(low=None, high=None)).value
    assert isinstance(released, Video) and released.frames.dtype == np.uint8
    assert released.frames.std() > 10
    kept = (released.subject, released.place, released.activity, released.person_mask)
    assert kept == (None, None, None, None)


def test_several_arrays_are_one_joint_release() -> None:
    arrays = (np.zeros((4, 3)), np.zeros((4, 5)))
    frame = mechanism(unit="frame", high=1.0)
    assert frame.compute_scale(((4, 3), (4, 5))).sigma == frame.compute_scale((4, 8)).sigma
    done = release_value(arrays, frame)
    assert isinstance(done.value, tuple) and [a.shape for a in done.value] == [(4, 3), (4, 5)]
    assert done.receipt.shapes == ((4, 3), (4, 5))


def test_the_statistic_tells_the_worst_case_apart_as_well_as_theory_allows() -> None:
    chosen = mechanism(epsilon=4.0, unit="pixels", pixels=2, high=1.0)
    value, neighbour = chosen.worst_case((5, 3))
    noise = Noise(seed=8)
    scores = [
        np.array([chosen.statistic(np.asarray(chosen.apply(x, noise))) for _ in range(4000)])
        for x in (value, neighbour)
    ]
    apart = (scores[1].mean() - scores[0].mean()) / scores[0].std()
    assert apart == pytest.approx(gaussian_mu(4, 1e-4), abs=0.08)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unit": None}, r"Expected a unit(.|\n)*value(.|\n)*subject +everything that one person"),
        ({"unit": "face"}, "Unknown unit 'face'"),
        ({"unit": "shard"}, "teacher"),
        ({"unit": "pixels"}, "--unit pixels needs --pixels N"),
        ({"pixels": 3}, "the units pixels and tube alone"),
        ({"unit": "tube", "pixels": 0}, "whole number"),
        ({"relation": "add_remove"}, "shape of a released array is public"),
        ({"relation": "swap"}, "Unknown relation"),
        ({"epsilon": -1}, "epsilon to be finite and > 0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"delta": 1.0}, "delta to be strictly between 0 and 1"),
        ({"delta": 0.0}, "delta"),
        ({"low": None}, "both ends"),
        ({"low": 3.0, "high": 1.0}, "low < high"),
        ({"high": float("inf")}, "high"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mechanism(**fields)


def test_wrong_values_are_refused() -> None:
    eight_bit = mechanism(low=None, high=None)
    with pytest.raises(ValueError, match="without looking at the data"):
        eight_bit.apply(np.zeros(3), Noise())
    assert np.asarray(eight_bit.apply(np.zeros(3, np.uint8), Noise())).shape == (3,)
    for bad in (np.array([1.0, np.nan]), np.array([np.inf]), np.array(["a"]), np.array([True])):
        with pytest.raises(BadInput):
            mechanism().apply(bad, Noise())
    with pytest.raises(ValueError, match="axes of size >= 1"):
        mechanism().guarantee((3, 0))
    with pytest.raises(ValueError, match="axes of size >= 1"):
        mechanism().guarantee(())


def test_the_door_makes_mechanisms_by_name() -> None:
    made = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame")
    assert made == GaussianNoise(epsilon=1, delta=1e-5, unit="frame")
    with pytest.raises(ValueError, match="Unknown mechanism 'magic'"):
        make_mechanism("magic")


def test_what_apply_would_refuse_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("ward", Unit(name=UnitName.FRAME), epsilon=8, delta=1e-5)
    value = np.zeros((4, 3))
    ledger.add_content("ward", value)
    without_range = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame")
    with pytest.raises(ValueError, match="low and high"):
        release_value(value, without_range, ledger=ledger)
    assert [entry.kind for entry in ledger.read_entries()] == ["open", "add"]


@pytest.mark.parametrize(
    ("unit", "frames", "growth"),
    [("value", 64, 9.6e-7), ("frame", 64, 4.9e-4), ("video", 64, 0.0039), ("video", 250, 0.0078)],
)
def test_rounding_costs_what_the_docs_say(unit: str, frames: int, growth: float) -> None:
    chosen = mechanism(unit=unit)
    shape = (frames, 240, 320, 3)
    touched = {"value": 1, "frame": 240 * 320 * 3, "video": frames * 240 * 320 * 3}[unit]
    ideal = 127.5 * math.sqrt(touched)
    assert chosen.compute_scale(shape).sensitivity / ideal - 1 == pytest.approx(growth, rel=0.02)
