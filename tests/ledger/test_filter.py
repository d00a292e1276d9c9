"""The refusal holds when events are chosen after seeing outputs; costs go up, allowances down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeAlias

import mpmath
import numpy as np
import pytest
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace, norm

from masquerade import accounting, make_mechanism
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.accounting.tilted import renyi_divergence
from masquerade.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger.filter import BudgetFilter, FilterName, find_best_order

Curve: TypeAlias = Callable[[np.ndarray], np.ndarray]
UNIT = 1 << 80  # costs are whole multiples of 2^-80


def gaussian(
    epsilon: float, delta: float = 1e-5, relation: Relation = Relation.ZERO_OUT
) -> BudgetFilter:
    return BudgetFilter(name=FilterName.GAUSSIAN, epsilon=epsilon, delta=delta, relation=relation)


def renyi(
    epsilon: float, delta: float = 1e-5, relation: Relation = Relation.ZERO_OUT
) -> BudgetFilter:
    order = find_best_order(epsilon, delta)
    return BudgetFilter(
        name=FilterName.RENYI, epsilon=epsilon, delta=delta, relation=relation, order=order
    )


def sampled(q: float, z: float) -> PoissonSampledDpEvent:
    return PoissonSampledDpEvent(q, GaussianDpEvent(z))


def let_through(cap: BudgetFilter, events: Iterable[DpEvent]) -> list[DpEvent]:
    """The events that fit, each offered once, in order."""
    admitted, spent = [], 0
    for event in events:
        if spent + cap.price_event(event) <= cap.allowance:
            spent += cap.price_event(event)
            admitted.append(event)
    return admitted


@pytest.mark.parametrize(("relation", "distance"), [("zero_out", 1), ("replace_one", 2)])
@pytest.mark.parametrize("z", [0.3, 1.0, 7.5])
def test_a_gaussian_costs_its_closed_form(relation: str, distance: int, z: float) -> None:
    for order in (1.5, 2.0, 30.0):
        found = renyi_divergence(GaussianDpEvent(z), order=order, relation=Relation(relation))
        assert found == pytest.approx(order * distance**2 / (2 * z**2), rel=1e-14)


@pytest.mark.parametrize("q", [1e-3, 0.01, 0.2])
@pytest.mark.parametrize("z", [0.6, 2.0, 8.0])
def test_a_sampled_gaussian_agrees_with_dp_accounting(q: float, z: float) -> None:
    orders = [2, 3, 8, 32]
    peer = RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
    peer.compose(sampled(q, z))
    found = [
        renyi_divergence(sampled(q, z), order=float(a), relation=Relation.ZERO_OUT) for a in orders
    ]
    assert found == pytest.approx(list(peer._rdp), rel=1e-6, abs=1e-9)


def exact_moment(order: int, q: float, z: float) -> mpmath.mpf:
    """The binomial sum for whole orders, to 50 digits."""
    with mpmath.workdps(50):
        q, z = mpmath.mpf(q), mpmath.mpf(z)
        terms = (
            mpmath.binomial(order, k)
            * (1 - q) ** (order - k)
            * q**k
            * mpmath.exp((k * k - k) / (2 * z * z))
            for k in range(order + 1)
        )
        return mpmath.log(mpmath.fsum(terms)) / (order - 1)


@pytest.mark.parametrize("q", [1e-5, 1e-3, 0.01, 0.1, 0.9])
@pytest.mark.parametrize("z", [0.3, 1.0, 2.0, 10.0])
def test_a_sampled_gaussian_is_never_charged_too_little(q: float, z: float) -> None:
    for order in (2, 3, 8, 32):
        found = renyi_divergence(sampled(q, z), order=float(order), relation=Relation.ZERO_OUT)
        assert found >= exact_moment(order, q, z)


def test_replacing_costs_at_least_what_blanking_costs() -> None:
    events = [GaussianDpEvent(2.0), LaplaceDpEvent(2.0), sampled(0.05, 1.0)]
    for event in [*events, RevealedSampledDpEvent(0.05, GaussianDpEvent(1.0))]:
        for order in (1.2, 4.0, 20.0):
            blank = renyi_divergence(event, order=order, relation=Relation.ZERO_OUT)
            other = renyi_divergence(event, order=order, relation=Relation.REPLACE_ONE)
            assert 0 < blank < other


@pytest.mark.parametrize(
    ("relation", "order", "expected"),
    [
        ("zero_out", 2, 0.00283623),
        ("zero_out", 8, 0.35446585),
        ("zero_out", 32, 3.85144612),
        ("replace_one", 2, 0.01703686),
        ("replace_one", 8, 3.34211854),
    ],
)
def test_a_revealed_batch_costs_its_closed_form(relation: str, order: int, expected: float) -> None:
    event = RevealedSampledDpEvent(0.01, GaussianDpEvent(2.0))
    found = renyi_divergence(event, order=float(order), relation=Relation(relation))
    assert found == pytest.approx(expected, abs=1e-8)
    hidden = renyi_divergence(event, order=float(order), relation=Relation.ADD_REMOVE)
    assert hidden == math.inf, "a batch that is seen shows who is in the data"


@pytest.mark.parametrize("scale", [0.4, 1.0, 5.0])
@pytest.mark.parametrize("order", [1.3, 2.0, 12.0])
def test_laplace_agrees_with_numerical_integration(scale: float, order: float) -> None:
    def integrand(x: float) -> float:
        logs = order * laplace.logpdf(x, 1, scale) - (order - 1) * laplace.logpdf(x, 0, scale)
        return math.exp(logs)

    pieces = [(-40 * scale, 0.0), (0.0, 1.0), (1.0, 1 + 40 * scale)]
    total = sum(quad(integrand, *piece, epsabs=0, epsrel=1e-11)[0] for piece in pieces)
    found = renyi_divergence(LaplaceDpEvent(scale), order=order, relation=Relation.ZERO_OUT)
    assert found == pytest.approx(math.log(total) / (order - 1), rel=1e-8)


def test_divergences_of_repeated_events_add() -> None:
    def price(event: DpEvent) -> float:
        return renyi_divergence(event, order=4.0, relation=Relation.ZERO_OUT)

    one, two = GaussianDpEvent(2.0), LaplaceDpEvent(3.0)
    both = ComposedDpEvent([SelfComposedDpEvent(one, 5), two, NoOpDpEvent()])
    assert price(both) == pytest.approx(5 * price(one) + price(two))


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, math.inf])
def test_an_order_that_means_nothing_is_refused(order: float) -> None:
    with pytest.raises(ValueError, match="order"):
        renyi_divergence(GaussianDpEvent(1.0), order=order, relation=Relation.ZERO_OUT)


@given(z=st.floats(1e-3, 1e3), count=st.integers(1, 10**6))
def test_gaussian_costs_are_rounded_up_by_less_than_one_part(z: float, count: int) -> None:
    exact = Fraction(2) ** 2 / Fraction(z) ** 2 * count * UNIT
    cap = gaussian(1.0, relation=Relation.REPLACE_ONE)
    assert 0 <= cap.price_event(SelfComposedDpEvent(GaussianDpEvent(z), count)) - exact < 1


@given(z=st.floats(5e-3, 1e4))
def test_laplace_costs_are_rounded_up(z: float) -> None:
    with mpmath.workdps(60):
        tail = 1 / (1 + mpmath.exp(1 / mpmath.mpf(z)))
        guess = mpmath.mpf(float(norm.isf(float(tail))))
        root = mpmath.findroot(lambda x: mpmath.ncdf(-x) / tail - 1, guess)
        exact = (2 * root) ** 2 * UNIT
    assert (
        exact
        <= gaussian(1.0).price_event(LaplaceDpEvent(z))
        <= exact * (1 + mpmath.mpf("1e-6")) + 1
    )


@settings(max_examples=40)
@given(epsilon=st.floats(0.01, 50), log_delta=st.floats(-12, -2))
def test_allowances_are_rounded_down(epsilon: float, log_delta: float) -> None:
    delta = 10**log_delta
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(gaussian(epsilon, delta).allowance) / UNIT)
        ratio = epsilon / mu
        spent = mpmath.ncdf(mu / 2 - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - ratio)
        assert spent <= delta
        a = mpmath.mpf(find_best_order(epsilon, delta))
        slack = mpmath.log((a - 1) / a) - (mpmath.log(delta) + mpmath.log(a)) / (a - 1)
        assert renyi(epsilon, delta).allowance <= max(0, (epsilon - slack) * UNIT)


@given(epsilon=st.floats(0.05, 20), log_delta=st.floats(-10, -2), frames=st.integers(1, 50))
def test_a_release_calibrated_to_the_cap_fits_exactly_once(
    epsilon: float, log_delta: float, frames: int
) -> None:
    delta = 10**log_delta
    for relation in ("replace_one", "zero_out"):
        mechanism = make_mechanism(
            "gaussian_noise",
            epsilon=epsilon,
            delta=delta,
            unit="frame",
            relation=relation,
            low=0,
            high=9,
        )
        event = mechanism.event_for((frames, 3), Unit(name=UnitName.FRAME))
        assert event is not None
        cap = gaussian(epsilon, delta, Relation(relation))
        assert cap.price_event(event) <= cap.allowance < 1.000001 * cap.price_event(event)


@pytest.mark.parametrize("make", [gaussian, renyi])
def test_what_is_said_to_fit_fits_and_hardly_more_does(make: Callable[..., BudgetFilter]) -> None:
    cap = make(4.0, 1e-5)
    for spent in (0, cap.allowance // 3, cap.allowance * 9 // 10):
        left = cap.allowance - spent
        fits = cap.find_fitting_epsilon(left)
        for scale, is_refused in ((1 - 1e-9, False), (1 + 1e-6, True)):
            sigma = accounting.find_gaussian_sigma(fits * scale, delta=1e-5, sensitivity=1)
            assert (cap.price_event(GaussianDpEvent(sigma)) > left) is is_refused
    assert cap.find_fitting_epsilon(0) == cap.find_fitting_epsilon(-1) == 0


@pytest.mark.parametrize("noise_multiplier", [1e-9, 1e-3, 1 / 710])
def test_a_pure_event_far_past_the_cap_is_refused_however_large_the_cap(
    noise_multiplier: float,
) -> None:
    event, epsilon = LaplaceDpEvent(noise_multiplier), 1 / noise_multiplier
    for cap in (gaussian(0.9 * epsilon), renyi(0.5 * epsilon)):
        try:
            assert cap.price_event(event) > cap.allowance
        except UnsupportedEvent:
            pass  # refused before it is priced


@given(z=st.floats(1.0, 1e300), order=st.floats(1.02, 500))
def test_no_event_earns_budget_back(z: float, order: float) -> None:
    cap = BudgetFilter(
        name=FilterName.RENYI, epsilon=8, delta=1e-5, relation=Relation.ZERO_OUT, order=order
    )
    for event in (LaplaceDpEvent(z), RevealedSampledDpEvent(1e-9, GaussianDpEvent(z))):
        assert cap.price_event(event) >= 0


def test_events_without_a_price_are_refused() -> None:
    for event in (NonPrivateDpEvent(), GaussianDpEvent(0.0), LaplaceDpEvent(0.0)):
        for cap in (gaussian(8.0), renyi(8.0)):
            with pytest.raises(UnsupportedEvent):
                cap.price_event(event)
    with pytest.raises(UnsupportedEvent, match="--filter renyi"):
        gaussian(8.0).price_event(sampled(0.01, 1.0))
    assert gaussian(8.0).price_event(NoOpDpEvent()) == renyi(8.0).price_event(NoOpDpEvent()) == 0


@pytest.mark.parametrize("kind", [PoissonSampledDpEvent, RevealedSampledDpEvent])
def test_sampling_without_noise_is_refused(kind: type) -> None:
    with pytest.raises(UnsupportedEvent):
        renyi(8.0).price_event(kind(0.01, GaussianDpEvent(0.0)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"order": 2.0}, "exactly for renyi"),
        ({"name": FilterName.RENYI}, "exactly for renyi"),
        ({"name": FilterName.RENYI, "order": 1.0}, "above 1"),
    ],
)
def test_a_cap_that_means_nothing_is_refused(fields: dict[str, object], message: str) -> None:
    good = {
        "name": FilterName.GAUSSIAN,
        "epsilon": 8.0,
        "delta": 1e-5,
        "relation": Relation.ZERO_OUT,
    }
    with pytest.raises(ValueError, match=message):
        BudgetFilter(**(good | fields))  # type: ignore[arg-type]


@given(
    zs=st.lists(st.floats(0.3, 50), max_size=40),
    epsilon=st.floats(0.05, 30),
    relation=st.sampled_from([Relation.ZERO_OUT, Relation.REPLACE_ONE]),
)
def test_gaussians_that_get_through_stay_within_the_cap(
    zs: list[float], epsilon: float, relation: Relation
) -> None:
    cap = gaussian(epsilon, relation=relation)
    admitted = let_through(cap, map(GaussianDpEvent, zs))
    left = cap.allowance - sum(map(cap.price_event, admitted))
    distance = 2 if relation is Relation.REPLACE_ONE else 1
    last = GaussianDpEvent(distance / math.sqrt(max(left, 1) / UNIT) * (1 + 1e-15))
    full = let_through(cap, [*admitted, last])
    assert full[-1] is last, "the last one takes all that is left"
    assert (
        accounting.compute_epsilon(ComposedDpEvent(full), delta=1e-5, relation=relation) <= epsilon
    )


@settings(max_examples=8)
@given(
    events=st.lists(
        st.one_of(
            st.builds(GaussianDpEvent, st.floats(1, 10)),
            st.builds(LaplaceDpEvent, st.floats(1, 10)),
        ),
        min_size=1,
        max_size=6,
    ),
    make=st.sampled_from([gaussian, renyi]),
    epsilon=st.sampled_from([0.5, 2.0, 6.0]),
)
def test_mixed_lists_that_get_through_stay_within_the_cap(
    events: list[DpEvent], make: Callable[[float], BudgetFilter], epsilon: float
) -> None:
    admitted = let_through(make(epsilon), events * 4)
    if admitted:
        total = accounting.compute_epsilon(
            ComposedDpEvent(admitted), delta=1e-5, relation="zero_out"
        )
        assert total <= epsilon


@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.05, 2.0), (0.001, 0.7)])
@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE_ONE])
def test_training_that_gets_through_stays_within_the_cap(
    q: float, z: float, relation: Relation
) -> None:
    cap = renyi(3.0, relation=relation)
    steps = cap.allowance // cap.price_event(sampled(q, z))
    run = SelfComposedDpEvent(sampled(q, z), steps)
    assert 0 < steps and cap.price_event(run) <= cap.allowance
    assert 0.3 < accounting.compute_epsilon(run, delta=1e-5, relation=relation) <= 3.0


EPSILON, DELTA = 2.0, 1e-4
FIRST, PURE, RARE = GaussianDpEvent(2.2), LaplaceDpEvent(1.8), sampled(9.6e-5, 0.12)


def laplace_curve(e: np.ndarray) -> np.ndarray:
    """Delta of PURE at each epsilon."""
    pure = 1 / PURE.noise_multiplier
    inside = -np.expm1((np.clip(e, -pure, pure) - pure) / 2)
    return np.where(e < -pure, -np.expm1(e), inside)


def rare_curve(e: np.ndarray) -> np.ndarray:
    """Delta of RARE at each epsilon: the batch that holds the record against one that does not."""
    q, z = RARE.sampling_probability, 0.12
    with np.errstate(invalid="ignore", divide="ignore"):
        x = 0.5 + z**2 * np.log((np.expm1(e) + q) / q)  # where the loss is e
        held = (1 - q) * norm.sf(x / z) + q * norm.sf((x - 1) / z)
    return np.where(e > np.log1p(-q), held - np.exp(e) * norm.sf(x / z), -np.expm1(e))


def delta_after_first(*curves: Curve) -> float:
    """Delta at EPSILON when the second event is picked, by the worst rule, after the first."""
    y, mu = np.linspace(-12, 12, 200_001), 1 / FIRST.noise_multiplier
    loss = mu**2 / 2 + mu * y
    worst = np.max([curve(EPSILON - loss) for curve in curves], axis=0)
    return float(np.sum(norm.pdf(y) * worst) * (y[1] - y[0]))


def test_either_list_fits_if_fixed_and_choosing_between_them_does_not() -> None:
    """Neither continuation spends more than delta 1e-4; choosing by the outcome spends 1.9e-4."""
    for event, curve in ((PURE, laplace_curve), (RARE, rare_curve)):
        fixed = ComposedDpEvent([FIRST, event])
        assert accounting.compute_epsilon(fixed, delta=DELTA, relation="zero_out") <= EPSILON
        assert 0.9e-4 < delta_after_first(curve) <= DELTA
    assert delta_after_first(laplace_curve, rare_curve) > 1.9 * DELTA


@pytest.mark.parametrize("event", [PURE, RARE])
def test_the_filter_refuses_what_a_fixed_list_would_allow(event: DpEvent) -> None:
    cap = renyi(EPSILON, DELTA)
    assert let_through(cap, [FIRST]) == [FIRST]
    assert let_through(cap, [FIRST, event]) == [FIRST]
