"""What a run costs somebody who is in several of its units."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as distributions
from scipy.stats import binom

from masquerade.accounting import compute_epsilon
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.group import group_event
from masquerade.events import GaussianDpEvent, LaplaceDpEvent
from masquerade.guarantee import Relation

EVENT = make_sampled_gaussian(8.0, sampling_prob=0.5, steps=4)


@pytest.mark.parametrize(
    ("z", "q", "steps", "units"),
    [
        (4.0, 0.02, 50, 2),
        (4.0, 0.02, 50, 5),
        (4.0, 0.01, 300, 10),
        (60.0, 0.01, 1000, 300),  # 8.2 if neighbours were taken together where they are likely
        pytest.param(300.0, 0.5, 50, 300, marks=pytest.mark.slow),
        pytest.param(1.0, 0.02, 50, 2, marks=pytest.mark.slow),
        pytest.param(1.0, 0.02, 50, 5, marks=pytest.mark.slow),
    ],
)
def test_a_groups_bound_lies_between_two_of_the_exact_mixture(
    z: float, q: float, steps: int, units: int
) -> None:
    drawn = np.arange(units + 1)
    weights = binom.pmf(drawn, units, q)
    kept = weights > 1e-18
    low, high = (
        distributions.from_mixture_gaussian_mechanism(
            z,
            drawn[kept].tolist(),
            (weights[kept] / weights[kept].sum()).tolist(),
            value_discretization_interval=1e-3,
            pessimistic_estimate=is_high,
            use_connect_dots=is_high,
        )
        .self_compose(steps)
        .get_epsilon_for_delta(1e-5)
        for is_high in (False, True)
    )
    event = make_sampled_gaussian(z, sampling_prob=q, steps=steps)
    bound = compute_epsilon(group_event(event, units), delta=1e-5, relation=Relation.ZERO_OUT)
    alone = compute_epsilon(event, delta=1e-5, relation=Relation.ZERO_OUT)
    assert alone < low <= bound <= high * 1.001


def test_a_group_of_one_is_the_event_itself_and_others_are_refused() -> None:
    assert group_event(EVENT, 1) is EVENT
    found = group_event(make_sampled_gaussian(3.0, sampling_prob=1.0, steps=2), 3)
    assert "noise_multiplier=1.0" in str(found)
    assert group_event(GaussianDpEvent(1.0), 3).noise_multiplier <= 1 / 3
    with pytest.raises(ValueError, match="for a group"):
        group_event(LaplaceDpEvent(1.0), 2)
