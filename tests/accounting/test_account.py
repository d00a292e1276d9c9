"""Composition, sampling, revealed batches, calibration: known numbers and safe sides."""

from __future__ import annotations

import math

import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

from masquerade.accounting import (
    compute_epsilon,
    compute_revealed_delta,
    compute_revealed_epsilon,
    find_noise_multiplier,
)
from masquerade.accounting.compose import find_gaussian_mu, make_sampled_gaussian
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.accounting.verdict import renyi_epsilon
from masquerade.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoGuaranteeDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    event_from_json,
    event_to_json,
)
from masquerade.guarantee import Relation
from masquerade.tradeoff import gaussian_epsilon

RUN = dict(sampling_prob=0.01, steps=1000)


@pytest.mark.parametrize(
    ("z", "relation", "expected"),
    # dp-accounting 0.6.0, PLD at 1e-4
    [
        (4, "zero_out", 0.27217),
        (4, "add_remove", 0.27217),
        (4, "replace_one", 0.56138),
        (1, "zero_out", 1.82824),
        (1, "replace_one", 2.84345),
    ],
)
def test_poisson_sampling_has_the_known_epsilons(z: float, relation: str, expected: float) -> None:
    found = compute_epsilon(make_sampled_gaussian(z, **RUN), delta=1e-5, relation=relation)
    assert found == pytest.approx(expected, rel=3e-4)


@pytest.mark.parametrize(("distance", "expected"), [(1, 3.92155), (2, 9.17592)])
def test_revealed_batches_have_the_known_epsilons(distance: float, expected: float) -> None:
    found = compute_revealed_epsilon(noise_multiplier=4, delta=1e-5, distance=distance, **RUN)
    assert found == pytest.approx(expected, abs=6e-6)


@pytest.mark.parametrize(
    ("distance", "order", "expected"),
    # log(1 - q + q exp(a(a-1)D^2/(2z^2)))/(a-1) at q=.01, z=2
    [
        (1, 2, 0.00283623),
        (1, 8, 0.35446585),
        (1, 32, 3.85144612),
        (2, 2, 0.01703686),
        (2, 8, 3.34211854),
    ],
)
def test_revealed_batches_have_the_known_moments(
    distance: float, order: int, expected: float
) -> None:
    """The hockey-stick curve that we use integrates to the closed-form Renyi divergence."""
    exponent = order * (order - 1) * distance**2 / (2 * 2.0**2)
    assert math.log(0.99 + 0.01 * math.exp(exponent)) / (order - 1) == pytest.approx(
        expected, abs=1e-8
    )
    # epsilon from that moment is an upper bound of the exact one
    delta = 1e-5
    from_moment = (
        expected + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)
    )
    exact = compute_revealed_epsilon(
        sampling_prob=0.01, steps=1, noise_multiplier=2, delta=delta, distance=distance
    )
    assert exact <= from_moment


def test_revealing_costs_at_least_as_much_as_hiding() -> None:
    for relation in ("zero_out", "replace_one"):
        hidden = compute_epsilon(make_sampled_gaussian(2, **RUN), delta=1e-5, relation=relation)
        shown = compute_epsilon(
            make_sampled_gaussian(2, **RUN, is_revealed=True), delta=1e-5, relation=relation
        )
        assert shown > 3 * hidden
    everywhere = make_sampled_gaussian(2, **RUN, is_revealed=True)
    assert compute_epsilon(everywhere, delta=1e-5, relation="add_remove") == math.inf


def test_a_fixed_grid_would_be_wrong_and_halving_is_not() -> None:
    # q=.0134, T=22352, z=70: .190 at 1e-3, .0892 at 1e-4, .0871 at 1e-5
    event = make_sampled_gaussian(70, sampling_prob=0.0134, steps=22352)
    fixed = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL, 1e-3)
    fixed.compose(event)
    assert fixed.get_epsilon(1e-5) == pytest.approx(0.190, abs=1e-3)
    assert compute_epsilon(event, delta=1e-5, relation="zero_out") == pytest.approx(
        0.0870, abs=2e-4
    )


def test_gaussians_compose_in_quadrature() -> None:
    event = ComposedDpEvent([GaussianDpEvent(3.0), SelfComposedDpEvent(GaussianDpEvent(4.0), 2)])
    mu = math.sqrt(1 / 9 + 2 / 16)
    assert find_gaussian_mu(event, relation=Relation.ZERO_OUT) == pytest.approx(mu)
    found = compute_epsilon(event, delta=1e-5, relation="zero_out")
    assert found == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert compute_epsilon(event, delta=1e-5, relation="replace_one") == pytest.approx(
        gaussian_epsilon(2 * mu, 1e-5)
    )


def test_replace_one_doubles_a_plain_gaussian_and_renyi_may_not_be_asked() -> None:
    # The trap: dp-accounting's Renyi accountant gives 4.7285 for both relations at sigma 1;
    # the truth for replace_one is the Gaussian at half the noise, 9.9973.
    assert compute_epsilon(
        GaussianDpEvent(1.0), delta=1e-5, relation="replace_one"
    ) == pytest.approx(9.9973, abs=1e-4)
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-4)
    accountant.compose(GaussianDpEvent(1.0))
    assert accountant.get_epsilon(1e-5) == pytest.approx(9.9973, abs=1e-3)
    with pytest.raises(ValueError, match="does not double"):
        renyi_epsilon(1.0, delta=1e-5, relation="replace_one", **RUN)
    assert renyi_epsilon(4.0, delta=1e-5, **RUN) == pytest.approx(0.30116, abs=1e-5)


def test_no_file_but_one_touches_the_renyi_accountant() -> None:
    from test_architecture import FILES

    users = [path.name for path in FILES if "rdp" in path.read_text().lower()]
    assert users == ["verdict.py"]


def test_what_is_not_private_costs_everything_and_what_is_unknown_is_refused() -> None:
    everything = ComposedDpEvent([GaussianDpEvent(1.0), NonPrivateDpEvent()])
    assert compute_epsilon(everything, delta=1e-5, relation="zero_out") == math.inf
    assert compute_epsilon(GaussianDpEvent(0.0), delta=1e-5, relation="zero_out") == math.inf
    assert compute_epsilon(NoOpDpEvent(), delta=1e-5, relation="zero_out") == 0.0
    assert compute_epsilon(ComposedDpEvent([]), delta=1e-5, relation="zero_out") == 0.0
    for event, relation in (
        (NoGuaranteeDpEvent("blur"), "zero_out"),
        (PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0)), "zero_out"),
    ):
        with pytest.raises(UnsupportedEvent, match="Expected an event with a known"):
            compute_epsilon(event, delta=1e-5, relation=relation)


def test_events_travel_as_json_and_only_known_ones_come_back() -> None:
    event = ComposedDpEvent(
        [make_sampled_gaussian(2, **RUN, is_revealed=True), NoGuaranteeDpEvent("x")]
    )
    assert event_from_json(event_to_json(event)) == event
    for bad in ({"class_name": "Popen", "args": "ls"}, {"noise_multiplier": 1}, "x"):
        with pytest.raises(ValueError, match="class_name among"):
            event_from_json(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fields of GaussianDpEvent"):
        event_from_json({"class_name": "GaussianDpEvent", "sigma": 1.0})


@pytest.mark.parametrize(
    ("target", "q", "steps"),
    [
        (3, 0.01, 1000),
        (1, 0.05, 2000),
        pytest.param(8, 0.002, 20000, marks=pytest.mark.slow),
        (0.1, 0.0134, 22352),
        pytest.param(0.02, 0.001, 100_000, marks=pytest.mark.slow),
        (2, 1.0, 7),
    ],
)
@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_calibrated_noise_satisfies_its_target_and_is_not_wasteful(
    target: float, q: float, steps: int, relation: str
) -> None:
    z = find_noise_multiplier(target, delta=1e-5, sampling_prob=q, steps=steps, relation=relation)
    reached = compute_epsilon(
        make_sampled_gaussian(z, sampling_prob=q, steps=steps), delta=1e-5, relation=relation
    )
    assert target * 0.998 <= reached <= target


def test_calibration_has_the_known_value() -> None:
    z = find_noise_multiplier(1, delta=1e-5, relation="zero_out", **RUN)
    assert z == pytest.approx(1.4146, rel=1e-4)  # 1.41495 by a coarser composition


@pytest.mark.parametrize(("target", "expected"), [(0.5, 122.4), (1, 64.95), (5, 15.56)])
def test_calibration_with_revealed_batches_has_the_known_values(
    target: float, expected: float
) -> None:
    # MaskDP on UCF101 with one shared batch: z needed for zero_out; double for replace_one
    run = dict(delta=1e-5, sampling_prob=128 / 9537, steps=22352, is_revealed=True)
    z = find_noise_multiplier(target, relation="zero_out", **run)
    assert z == pytest.approx(expected, rel=5e-4)
    assert find_noise_multiplier(target, relation="replace_one", **run) == pytest.approx(
        2 * z, rel=1e-4
    )


@settings(max_examples=8)
@given(
    target=st.floats(0.05, 20),
    delta=st.floats(1e-9, 1e-2),
    q=st.floats(0.001, 1.0),
    steps=st.integers(1, 500),
)
def test_any_target_is_met(target: float, delta: float, q: float, steps: int) -> None:
    z = find_noise_multiplier(
        target, delta=delta, sampling_prob=q, steps=steps, relation="zero_out"
    )
    event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
    assert compute_epsilon(event, delta=delta, relation="zero_out") <= target


@settings(max_examples=6)
@given(z=st.floats(0.6, 20), q=st.floats(0.001, 0.5), steps=st.integers(1, 300))
def test_epsilon_falls_with_noise_and_rises_with_steps(z: float, q: float, steps: int) -> None:
    def at(z: float, steps: int) -> float:
        event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
        return compute_epsilon(event, delta=1e-6, relation="replace_one")

    slack = 1 + 2e-4  # the discretisation's tolerance
    assert at(z * 1.3, steps) <= at(z, steps) * slack
    assert at(z, steps * 2) * slack >= at(z, steps)


@given(st.floats(0.1, 20), st.floats(0.001, 1), st.integers(1, 3000), st.floats(1e-9, 1e-2))
@settings(max_examples=40)
def test_revealed_epsilon_meets_its_delta(z: float, q: float, steps: int, delta: float) -> None:
    run = dict(sampling_prob=q, steps=steps, noise_multiplier=z, distance=1.0)
    found = compute_revealed_epsilon(delta=delta, **run)
    assert compute_revealed_delta(found, **run) <= delta * (1 + 1e-6)


@pytest.mark.parametrize(
    ("z", "q", "steps", "delta"),
    [(1.0, 0.01, 1000, 1e-5), (4.0, 0.0134, 3000, 1e-5), (2.0, 0.05, 500, 1e-6)],
)
def test_epsilon_is_within_one_percent_above_an_independent_lower_estimate(
    z: float, q: float, steps: int, delta: float
) -> None:
    accountant = PRVAccountant(
        PoissonSubsampledGaussianMechanism(sampling_probability=q, noise_multiplier=z),
        max_self_compositions=steps,
        eps_error=0.002,
        delta_error=delta / 1000,
    )
    lower, _, _ = accountant.compute_epsilon(delta=delta, num_self_compositions=steps)
    ours = compute_epsilon(
        make_sampled_gaussian(z, sampling_prob=q, steps=steps), delta=delta, relation="add_remove"
    )
    assert lower <= ours <= lower * 1.01


@pytest.mark.parametrize(
    "event",
    [
        GaussianDpEvent(float("nan")),
        GaussianDpEvent(-1.0),
        SelfComposedDpEvent(GaussianDpEvent(1.0), -3),
        SelfComposedDpEvent(GaussianDpEvent(1.0), 0.001),
        PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0)),
        ComposedDpEvent([GaussianDpEvent(1.0), SelfComposedDpEvent(NoGuaranteeDpEvent("x"), 0)]),
    ],
)
def test_events_that_cannot_have_happened_are_refused(event: DpEvent) -> None:
    with pytest.raises(ValueError, match="Expected"):
        compute_epsilon(event, delta=1e-5, relation="zero_out")
    with pytest.raises(ValueError, match="Expected"):
        event_from_json(event_to_json(event))


@pytest.mark.parametrize(
    ("z", "q", "steps", "delta"),
    [
        (1e-3, 0.01, 1, 1e-5),
        (1.0, 1e-12, 10**6, 1e-9),
        (1.0, 0.01, 1000, 1e-300),
        (1e5, 0.5, 9, 0.9),
    ],
)
def test_extreme_arguments_end_with_a_bound(z: float, q: float, steps: int, delta: float) -> None:
    event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
    assert 0 <= compute_epsilon(event, delta=delta, relation="replace_one") < math.inf


def test_who_is_hardly_ever_sampled_is_protected_by_that_alone() -> None:
    rare = make_sampled_gaussian(0.02, sampling_prob=1e-6, steps=9)
    assert compute_epsilon(rare, delta=1e-5, relation="replace_one") == 0.0
    assert compute_epsilon(rare, delta=1e-6, relation="replace_one") > 1
    run = dict(delta=1e-5, sampling_prob=1e-6, relation="zero_out")
    assert find_noise_multiplier(1, steps=9, **run) == find_noise_multiplier(5, steps=1, **run)


def test_huge_and_tiny_noise_end_with_a_bound() -> None:
    at = {
        z: compute_epsilon(GaussianDpEvent(z), delta=1e-5, relation="zero_out")
        for z in (1e200, 1e-100)
    }
    assert at[1e200] == 0.0 and at[1e-100] == pytest.approx(5e199)
    assert find_noise_multiplier(1e-6, delta=1e-5, relation="zero_out", **RUN) == pytest.approx(
        12027, rel=1e-3
    )


@pytest.mark.parametrize(
    "wrong",
    [
        dict(sampling_prob=2.0),
        dict(sampling_prob=0.0),
        dict(steps=0),
        dict(steps=1.5),
        dict(noise_multiplier=-1.0),
        dict(noise_multiplier=float("nan")),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, float]) -> None:
    arguments = dict(noise_multiplier=1.0, sampling_prob=0.1, steps=10) | wrong
    with pytest.raises(ValueError, match="Expected"):
        make_sampled_gaussian(
            arguments["noise_multiplier"],
            sampling_prob=arguments["sampling_prob"],
            steps=arguments["steps"],  # type: ignore[arg-type]
        )
