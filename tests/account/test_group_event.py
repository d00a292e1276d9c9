"""What a run costs somebody who is in several of its units."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as distributions
from scipy.stats import binom

from masquerade.account import epsilon
from masquerade.account.calibrate import sampled_gaussian
from masquerade.account.group import group_event
from masquerade.events import GaussianDpEvent, LaplaceDpEvent
from masquerade.guarantee import Relation

EVENT = sampled_gaussian(8.0, sampling_prob=0.5, steps=4)


@pytest.mark.parametrize(
    ("z", "units"),
    [
        (4.0, 2),
        (4.0, 3),
        (4.0, 5),
        (1.0, 2),
        pytest.param(1.0, 3, marks=pytest.mark.slow),
        pytest.param(1.0, 5, marks=pytest.mark.slow),
    ],
)
def test_a_groups_bound_lies_above_the_exact_mixture(z: float, units: int) -> None:
    q, steps, delta = 0.02, 50, 1e-5
    weights = [float(np.exp(binom.logpmf(j, units, q))) for j in range(units + 1)]
    exact = distributions.from_mixture_gaussian_mechanism(
        z, list(range(units + 1)), weights, value_discretization_interval=1e-3
    )
    truth = exact.self_compose(steps).get_epsilon_for_delta(delta)
    event = sampled_gaussian(z, sampling_prob=q, steps=steps)
    bound = epsilon(group_event(event, units), delta=delta, relation=Relation.ZERO_OUT)
    alone = epsilon(event, delta=delta, relation=Relation.ZERO_OUT)
    assert alone < truth <= bound * 1.001


def test_a_large_group_is_hardly_looser_than_its_exact_law() -> None:
    # q=.01, z=20, 1000 steps: 7.54 by the exact mixture of 101 shifts
    event = group_event(sampled_gaussian(20.0, sampling_prob=0.01, steps=1000), 100)
    assert 7.53 <= epsilon(event, delta=1e-5, relation=Relation.ZERO_OUT) <= 7.7


def test_a_group_of_one_is_the_event_itself_and_others_are_refused() -> None:
    assert group_event(EVENT, 1) is EVENT
    found = group_event(sampled_gaussian(3.0, sampling_prob=1.0, steps=2), 3)
    assert "noise_multiplier=1.0" in str(found)
    assert group_event(GaussianDpEvent(1.0), 3).noise_multiplier <= 1 / 3
    with pytest.raises(ValueError, match="for a group"):
        group_event(LaplaceDpEvent(1.0), 2)
