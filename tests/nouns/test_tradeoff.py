"""The analytic Gaussian: known values, extreme arguments, and roots on the safe side."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.accounting import find_gaussian_sigma
from masquerade.tradeoff import compute_max_power, gaussian_delta, gaussian_epsilon, gaussian_mu


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workprec(2000):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    # analytic Gaussian by independent code
    [(8, 1e-4, 1.841366), (2, 1e-4, 0.576585), (5, 1e-4, 1.256376)],
)
def test_mu_has_the_known_values(epsilon: float, delta: float, mu: float) -> None:
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=6e-7)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "sigma"),
    # the first three agree with dp_accounting.get_sigma_gaussian
    [
        (1, 1e-5, 1, 3.730632),
        (0.5, 1e-5, 1, 7.031827),
        (8, 1e-4, 1, 0.543075),
        (0.1, 1e-6, 2, 72.609381),
    ],
)
def test_sigma_has_the_known_values(
    epsilon: float, delta: float, sensitivity: float, sigma: float
) -> None:
    found = find_gaussian_sigma(epsilon, delta=delta, sensitivity=sensitivity)
    assert found == pytest.approx(sigma, abs=6e-7)


def test_the_classical_formula_is_too_small_where_ours_is_not() -> None:
    classical = math.sqrt(2 * math.log(1.25 / 1e-4)) / 8
    assert classical == pytest.approx(0.54295, abs=1e-5)
    assert gaussian_delta(8, 1 / classical) > 1e-4
    assert gaussian_delta(8, 1 / find_gaussian_sigma(8, delta=1e-4, sensitivity=1)) <= 1e-4


@given(st.floats(0.01, 60), st.floats(0.001, 12))
def test_delta_agrees_with_high_precision(epsilon: float, mu: float) -> None:
    truth = exact_delta(epsilon, mu)
    assert float(gaussian_delta(epsilon, mu)) == pytest.approx(float(truth), rel=1e-9, abs=1e-280)


@given(st.floats(1e-4, 200), st.floats(1e-12, 0.5))
def test_roots_are_on_the_private_side(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta * (1 - 1e-4)
    assert gaussian_delta(gaussian_epsilon(mu, delta), mu) <= delta * (1 + 1e-9)


@given(st.floats(1e-3, 50), st.floats(1.01, 3), st.floats(1e-10, 0.1))
def test_epsilon_falls_as_noise_grows(sigma: float, factor: float, delta: float) -> None:
    assert gaussian_epsilon(1 / (sigma * factor), delta) <= gaussian_epsilon(1 / sigma, delta)


@pytest.mark.parametrize("mu", [29219.0, 1e5, 1e7])
def test_huge_epsilons_are_finite_and_right(mu: float) -> None:
    found = gaussian_epsilon(mu, 1e-4)
    assert found == pytest.approx(mu * mu / 2 + mu * 3.719, rel=1e-3)
    assert math.isfinite(found)


def test_limits_have_their_values() -> None:
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(1e-9, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert np.all(gaussian_delta(1.0, np.array([0.0, 1e-12])) == 0.0)
    assert compute_max_power(0.01, epsilon=0.0, delta=0.0, is_gaussian=False) == pytest.approx(0.01)
    assert compute_max_power(0.01, epsilon=1e9, delta=1e-5, is_gaussian=False) == 1.0
