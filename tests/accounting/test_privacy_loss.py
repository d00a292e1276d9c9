"""Losses on a grid, and their sums: above the truth at every delta, and close to it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from conftest import Run
from masquerade._formatting import round_up_decimals
from masquerade.accounting import compute_epsilon, compute_revealed_epsilon, find_noise_multiplier
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.losses import DominatingPair, LaplaceLoss
from masquerade.accounting.power import false_negative_rate
from masquerade.accounting.tilted import LossSum
from masquerade.events import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)
from masquerade.guarantee import Relation
from masquerade.tradeoff import compute_max_power, gaussian_epsilon


def exact_delta(e: float, *, q: float, z: float, is_two_sided: bool) -> mpmath.mpf:
    """One sampled step, with fifty digits: P(x > t) - e^epsilon Q(x > t) at the likelihood's t."""
    with mpmath.workdps(50):
        q, z, grown = mpmath.mpf(q), mpmath.mpf(z), mpmath.exp(mpmath.mpf(e))

        def above(t: mpmath.mpf, shift: int) -> mpmath.mpf:
            return mpmath.erfc((t - shift) / (z * mpmath.sqrt(2))) / 2

        if is_two_sided:
            odds = (1 - q) * mpmath.sinh(mpmath.mpf(e) / 2) / q * mpmath.exp(1 / (2 * z * z))
            t = z * z * (mpmath.mpf(e) / 2 + mpmath.asinh(odds))
            other = (1 - q) * above(t, 0) + q * above(t, -1)
        else:
            t = z * z * mpmath.log((grown - 1 + q) / q) + mpmath.mpf(1) / 2
            other = above(t, 0)
        return (1 - q) * above(t, 0) + q * above(t, 1) - grown * other


def exact_epsilon(delta: float, *, q: float, z: float, is_two_sided: bool) -> float:
    low, high = 0.0, 1.0
    while exact_delta(high, q=q, z=z, is_two_sided=is_two_sided) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        is_above = exact_delta(middle, q=q, z=z, is_two_sided=is_two_sided) > delta
        low, high = (middle, high) if is_above else (low, middle)
    return low


@settings(max_examples=25, deadline=None)
@given(
    q=st.floats(1e-5, 0.9),
    z=st.floats(0.4, 8.0),
    share=st.floats(1e-12, 0.2),
    is_two_sided=st.booleans(),
)
def test_one_sampled_step_has_the_epsilon_of_its_integral(
    q: float, z: float, share: float, is_two_sided: bool
) -> None:
    delta = q * share
    relation = Relation.REPLACE_ONE if is_two_sided else Relation.ZERO_OUT
    found = compute_epsilon(
        make_sampled_gaussian(z, sampling_prob=q, steps=1), delta=delta, relation=relation
    )
    if float(exact_delta(0.0, q=q, z=z, is_two_sided=is_two_sided)) <= delta:
        assert found == 0.0
        return
    truth = exact_epsilon(delta, q=q, z=z, is_two_sided=is_two_sided)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-4) + 1e-8


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12, 1e-50, 1e-200])
@pytest.mark.parametrize(("z", "steps"), [(50.0, 10_000), (3.0, 7), (1e3, 1_000_000)])
def test_steps_that_are_gaussians_add_up_to_their_closed_form(
    z: float, steps: int, delta: float
) -> None:
    """The transform is given single steps, and must find what their sum is known to be."""
    best = math.inf
    for cells in (4, 32):
        interval = 1 / (cells * z)
        laws = DominatingPair((1.0,), (1.0,), z, False).make_laws(interval, delta / steps * 1e-6)
        total = LossSum([(laws[0], steps)], interval)
        best = min(best, total.tilt_at(total.find_tilt(delta)).find_epsilon(delta))
    truth = gaussian_epsilon(math.sqrt(steps) / z, delta)
    assert truth <= best <= truth * 1.001 + 1e-6


def test_rounding_is_part_of_the_bound() -> None:
    """Chances carry their rounding: they are never below the truth, not even far away."""
    z, steps = 20.0, 1000
    interval = 1 / (4 * z)
    laws = DominatingPair((1.0,), (1.0,), z, False).make_laws(interval, 1e-30)
    curve = LossSum([(laws[0], steps)], interval).tilt_at(0.0)
    mu = math.sqrt(steps) / z
    truth = [
        mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        for e in curve.losses[::50].tolist()
    ]
    assert all(
        found >= float(exact) for found, exact in zip(curve.deltas[::50], truth, strict=True)
    )


@pytest.mark.parametrize(
    ("z", "q", "steps", "delta", "relation", "truth"),
    # the first four as found by a tilted composition of another code; the last by its integral
    [
        (50.0, 1 - 1e-12, 10000, 1e-12, "zero_out", 15.64112),
        (1.0, 0.01, 1000, 1e-12, "zero_out", 3.91429),
        (8.16, 0.0134, 22352, 1e-13, "zero_out", 1.73059),
        (8.16, 0.0134, 22352, 1e-10, "zero_out", 1.47327),
        (1.0, 0.003, 1, 1e-12, "zero_out", 1.00182),
    ],
)
def test_small_deltas_are_met_without_waste(
    z: float, q: float, steps: int, delta: float, relation: str, truth: float
) -> None:
    event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
    assert truth <= compute_epsilon(event, delta=delta, relation=relation) <= truth * 1.0001


@pytest.mark.parametrize(
    ("q", "steps", "most"),
    [pytest.param(1e-7, 10**7, 0.00133, marks=pytest.mark.slow), (1e-9, 10**9, 0.00012)],
)
def test_very_many_very_rare_steps_end_soon_and_cost_little(
    q: float, steps: int, most: float
) -> None:
    start = time.process_time()
    found = compute_epsilon(
        make_sampled_gaussian(1.0, sampling_prob=q, steps=steps), delta=1e-7, relation="zero_out"
    )
    # the central limit: q sqrt(T (e - 1)); what is rare only adds to it
    assert gaussian_epsilon(q * math.sqrt(steps * (math.e - 1)), 1e-7) <= found <= most
    assert time.process_time() - start < 60


@pytest.mark.parametrize("z", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_hiding_a_batch_never_costs_more_than_showing_it(z: float, relation: str) -> None:
    run = dict(sampling_prob=0.5, steps=3)
    hidden = compute_epsilon(make_sampled_gaussian(z, **run), delta=1e-5, relation=relation)
    shown = compute_revealed_epsilon(
        noise_multiplier=z, delta=1e-5, distance=2 if relation == "replace_one" else 1, **run
    )
    assert hidden <= shown


@pytest.mark.parametrize("shift", [0.01, 0.3, 2.0, 9.0])
def test_a_laplace_loss_has_all_its_mass_and_its_deltas(shift: float) -> None:
    interval = shift / 37.3
    law, _ = LaplaceLoss(shift).make_laws(interval, 0.0)
    assert law.chances.sum() + law.lost == pytest.approx(1.0, abs=1e-12)
    losses = (law.first + np.arange(len(law.chances))) * interval
    for e in losses[(losses >= 0) & (losses < shift)]:
        found = float(law.chances @ np.maximum(-np.expm1(e - losses), 0.0))
        truth = -math.expm1((e - shift) / 2)  # of Laplace noise [mironov2017, Prop. 6]
        assert truth * (1 - 1e-9) <= found <= truth + 0.01


def test_laplaces_and_revealed_batches_compose_with_anything() -> None:
    rest = make_sampled_gaussian(2.0, sampling_prob=0.02, steps=200)
    for other in (
        SelfComposedDpEvent(LaplaceDpEvent(30.0), 40),
        SelfComposedDpEvent(RevealedSampledDpEvent(0.01, GaussianDpEvent(20.0)), 100),
        GaussianDpEvent(9.0),
    ):
        both = compute_epsilon(ComposedDpEvent([rest, other]), delta=1e-6, relation="replace_one")
        each = [compute_epsilon(one, delta=5e-7, relation="replace_one") for one in (rest, other)]
        assert max(each) * 0.9 < both <= sum(each)


def test_calibrated_noise_prints_its_target_when_it_is_asked_about(
    command: Callable[..., Run],
) -> None:
    run = ["--sampling-prob", "0.01", "--steps", "1", "--delta", "1e-5", "--json"]
    for target in ("0.001", "0.05", "1"):
        found = command("account", "calibrate", "--epsilon", target, "--relation", "zero_out", *run)
        z = found.json["noise_multiplier"]
        asked = command("account", "poisson", "--noise-multiplier", z, *run)
        assert asked.json["zero_out"] <= float(target)


@pytest.mark.parametrize(("target", "q", "steps"), [(1e-3, 0.01, 1), (2e-4, 0.1, 30)])
def test_tiny_targets_are_met_by_the_number_that_is_printed(
    target: float, q: float, steps: int
) -> None:
    z = find_noise_multiplier(target, delta=1e-6, sampling_prob=q, steps=steps, relation="zero_out")
    event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
    assert round_up_decimals(compute_epsilon(event, delta=1e-6, relation="zero_out")) <= target


@pytest.mark.parametrize("relation", list(Relation))
def test_the_own_curve_of_a_run_says_more_than_epsilon_and_delta(relation: Relation) -> None:
    event = make_sampled_gaussian(0.5521, sampling_prob=0.002, steps=20000)
    e = compute_epsilon(event, delta=1e-5, relation=relation)
    own = 1 - false_negative_rate(0.01, event, relation=relation)
    assert 0.01 < own < 0.8 < compute_max_power(0.01, epsilon=e, delta=1e-5, is_gaussian=False)


@pytest.mark.parametrize(
    ("parts", "delta", "truth"),
    # one step: its integral in mpmath; two: by quadrature
    [
        ([(0.5, 0.05)], 1e-290, 926.77),
        ([(0.01, 0.05)], 1e-290, 920.70),
        ([(0.5, 1.0), (0.5, 100.0)], 1e-262, 34.29),
        pytest.param([(0.5, 0.05), (0.5, 0.2)], 1e-290, 960.6, marks=pytest.mark.slow),
    ],
)
def test_the_smallest_deltas_are_met(
    parts: list[tuple[float, float]], delta: float, truth: float
) -> None:
    event = ComposedDpEvent([PoissonSampledDpEvent(q, GaussianDpEvent(z)) for q, z in parts])
    assert (
        truth * 0.99999 <= compute_epsilon(event, delta=delta, relation="zero_out") <= truth * 1.02
    )


@settings(max_examples=20, deadline=None)
@given(
    z=st.floats(1e-3, 3.0),
    shifts=st.lists(st.floats(0.2, 30.0), min_size=1, max_size=3, unique=True),
    q=st.floats(0.01, 0.6),
    cells=st.floats(0.5, 200.0),
)
def test_a_law_has_no_smaller_deltas_than_its_pair(
    z: float, shifts: list[float], q: float, cells: float
) -> None:
    """Whatever the grid: P(x > t) - e^epsilon Q(x > t) at a grid point's t is a lower bound."""
    shifts = sorted(shifts)
    pair = DominatingPair(tuple(q / len(shifts) for _ in shifts), tuple(shifts), z, False)
    interval = pair.find_max_loss(1e-12) / cells
    law, _ = pair.make_laws(interval, 1e-12)
    losses = (law.first + np.arange(len(law.chances))) * interval
    assert law.chances.sum() + law.lost == pytest.approx(1.0, abs=1e-9)
    table = np.linspace(-9 * z, max(shifts) + 9 * z, 400)
    for t, e in zip(table.tolist(), pair.compute_loss(table)[0].tolist(), strict=True):
        if not 0 <= e < 600:
            continue
        above = [float(norm.sf((t - s) / z)) for s in (0.0, *shifts)]
        truth = (
            pair.rest_weight * above[0] + q / len(shifts) * sum(above[1:]) - math.exp(e) * above[0]
        )
        found = float(law.chances @ -np.expm1(np.minimum(e - losses, 0.0))) + law.lost
        assert found >= truth - 1e-12


def test_what_cannot_be_told_apart_or_not_at_all_has_its_limits() -> None:
    nearly = SelfComposedDpEvent(PoissonSampledDpEvent(0.9, GaussianDpEvent(1.0)), 20)
    assert compute_epsilon(nearly, delta=1 - 1e-9, relation="zero_out") == 0.0
    always = MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.0, 1.0])
    found = compute_epsilon(always, delta=1e-5, relation="zero_out")
    assert gaussian_epsilon(1.0, 1e-5) <= found <= gaussian_epsilon(1.0, 1e-5) * 1.0001
    for silent in (PoissonSampledDpEvent(0.5, GaussianDpEvent(0.0)), LaplaceDpEvent(0.0)):
        assert false_negative_rate(0.01, silent, relation=Relation.ZERO_OUT) == 0.0
    many = SelfComposedDpEvent(PoissonSampledDpEvent(1e-13, GaussianDpEvent(1.0)), 10**20)
    assert compute_epsilon(many, delta=1e-5, relation="zero_out") > 0
