"""Parts of private training: who is drawn, what a plan costs, and how noise makes an update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.training import gradients, loop, step
from masquerade.training import plan as plans
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan, calibrate_plan, public_batch
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def planned(units: int = 8, expected: int = 8, **fields: Any) -> TrainingPlan:
    known = {"steps": 1, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}
    return TrainingPlan(sampler=PoissonSampling(units=units, expected=expected), **(known | fields))


class Spy(Noise):
    """Remembers what it was asked for."""

    def __init__(self, seed: int, *, louder: float = 1.0) -> None:
        super().__init__(seed=seed)
        self.asked: list[Any] = []
        self._louder = louder

    def sample_poisson_batch(self, sampling_prob: float, count: int) -> np.ndarray:
        self.asked.append(sampling_prob)
        return super().sample_poisson_batch(sampling_prob, count)

    def sample_gaussian(self, sigma: float, shape: Any, *, grid: float | None = None) -> np.ndarray:
        self.asked.append((sigma, grid))
        drawn = super().sample_gaussian(sigma, shape, grid=grid) * self._louder
        return drawn if grid is None else np.rint(drawn / grid) * grid


def test_units_are_drawn_as_often_as_is_accounted_and_apart_from_each_other() -> None:
    sampler, draws, noise = PoissonSampling(units=400, expected=50), 2000, Noise(seed=1)
    sizes = np.array([len(sampler.sample_batch(noise)) for _ in range(draws)])
    told = int(sizes.sum()), draws * 400
    assert binomtest(*told, sampler.sampling_prob).pvalue > 0.01
    assert binomtest(*told, sampler.sampling_prob * 1.02).pvalue < 1e-6
    spread = sizes.var() * draws / (400 * 0.125 * 0.875)  # of fixed sizes it would be 0
    assert 0.005 < chi2.sf(spread, draws - 1) < 0.995
    found = sampler.sample_batch(noise)
    assert (np.diff(found) > 0).all() and found.dtype.kind == "i"


def test_the_probability_drawn_is_the_very_double_that_is_accounted() -> None:
    sampler, noise = PoissonSampling(units=9537, expected=128), Spy(1)
    sampler.sample_batch(noise)
    accounted = sampler.event(2.0, 10).event.sampling_probability
    assert noise.asked == [accounted] == [128 / 9537]
    one = PoissonSampling(units=5, expected=5)
    assert len(one.sample_batch(noise)) == 5 and not hasattr(one.event(1.0, 3).event, "event")


def test_an_empty_batch_is_a_step_like_any_other() -> None:
    sampler, noise = PoissonSampling(units=3, expected=1), Noise(seed=4)
    empty = sum(not len(sampler.sample_batch(noise)) for _ in range(3000))
    assert binomtest(empty, 3000, (2 / 3) ** 3).pvalue > 0.01
    plan, tail = planned(3, 1), torch.nn.Linear(3, 2)
    rows = Rows(
        private=torch.ones(3, 3),
        public=None,
        targets=torch.tensor([0, 1, 0]),
        slots=np.arange(3)[:, None],
    )
    weights = {name: value.detach() for name, value in tail.named_parameters()}
    loss = loop._make_loss(tail, DpSgd(epsilon=8.0, unit="video"), rows)
    work = loop.Workload(physical=4)
    cells = loop._private_sum(loss, weights, rows, plan, work).sum_cells(np.array([], int))
    assert all(not value.any() and value.dtype == torch.int64 for value in cells.values())
    update = step.add_step_noise(cells, plan, noise)
    assert all(value.abs().min() > 0 for value in update.values())
    assert float(update["weight"].std()) > 0.3, "the full noise, whoever is there"


@pytest.mark.parametrize("wrong", [(3, 4), (0, 1), (3, 0), (3, 1.5)])
def test_a_batch_that_cannot_be_drawn_is_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        PoissonSampling(units=wrong[0], expected=wrong[1])


def test_public_batches_have_one_size_and_nobody_twice() -> None:
    drawn = [public_batch(20, 6, rng=np.random.default_rng(seed)) for seed in range(50)]
    assert {len(set(some.tolist())) for some in drawn} == {6}
    assert set(np.concatenate(drawn).tolist()) == set(range(20))


@pytest.mark.parametrize(
    ("relation", "is_revealed", "truth"),
    [
        (Relation.ZERO_OUT, False, 0.2722),
        (Relation.REPLACE_ONE, False, 0.5614),
        (Relation.ZERO_OUT, True, 3.9216),
        (Relation.REPLACE_ONE, True, 9.176),
    ],
)
def test_a_plan_costs_what_independent_code_says(
    relation: Relation, is_revealed: bool, truth: float
) -> None:
    sampler = PoissonSampling(units=100, expected=1, is_revealed=is_revealed)
    plan = TrainingPlan(
        sampler=sampler, steps=1000, clip_norm=0.3, noise_multiplier=4.0, delta=1e-5
    )
    assert plan.compute_epsilon(relation) == truth
    assert plan.sigma == pytest.approx(1.2) and plan.grid <= plan.sigma * 2.0**-20


@pytest.mark.parametrize("is_revealed", [False, True])
@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE_ONE])
def test_a_calibrated_plan_keeps_its_target_and_wastes_little(
    relation: Relation, is_revealed: bool
) -> None:
    sampler = PoissonSampling(units=200, expected=20, is_revealed=is_revealed)
    bare = TrainingPlan(sampler=sampler, steps=50, clip_norm=1.0, noise_multiplier=0.0, delta=1e-5)
    plan = calibrate_plan(bare, 3.0, relation=relation)
    assert 2.99 <= plan.compute_epsilon(relation) <= 3.0
    less = replace(plan, noise_multiplier=plan.noise_multiplier * 0.998)
    assert less.compute_epsilon(relation) > 3.0


FIVE = TrainingPlan(
    sampler=PoissonSampling(units=9, expected=1),
    steps=5,
    clip_norm=1.0,
    noise_multiplier=0.0,
    delta=1e-5,
)


@pytest.mark.parametrize(
    ("target", "met"), [(0.00015, 0.0001), (0.0001, 0.0001), (2.99999, 2.9999), (0.3, 0.3)]
)
def test_a_target_is_met_as_if_it_had_four_decimals(
    target: float, met: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, aimed = [], []

    def epsilon(event: Any, **_: Any) -> float:
        asked.append(event)
        if len(asked) > 100:
            raise TimeoutError("asked a hundred times")
        return 1 / event.event.event.noise_multiplier

    def calibrate(target: float, **_: Any) -> float:
        aimed.append(target)
        return 1 / target

    monkeypatch.setattr(plans, "compute_epsilon", epsilon)
    monkeypatch.setattr(plans, "find_noise_multiplier", calibrate)
    plan = calibrate_plan(FIVE, target, relation=Relation.ZERO_OUT)
    assert aimed == [met] and plan.compute_epsilon(Relation.ZERO_OUT) <= met


@pytest.mark.parametrize("target", [9.9999e-5, 1e-12])
def test_a_target_below_the_last_decimal_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match=r"Expected epsilon >= 0\.0001, the least that is stated"):
        calibrate_plan(FIVE, target, relation=Relation.ZERO_OUT)


def test_the_noise_of_an_update_has_the_stated_scale_and_lies_on_the_grid() -> None:
    plan, count = planned(8, 4, clip_norm=2.0, noise_multiplier=1.5), 200_000
    zero = {"w": torch.zeros(count, dtype=torch.int64)}
    noise = Spy(11)
    update = step.add_step_noise(zero, plan, noise)["w"].double().numpy()
    assert noise.asked == [(3.0, plan.grid)] and plan.grid == 2.0**-19
    cells = update * 4 / plan.grid
    assert np.array_equal(cells, np.rint(cells)) and len(np.unique(cells % 64)) == 64
    squares = float(((update * 4 / 3.0) ** 2).sum())
    assert 0.005 < chi2.sf(squares, count) < 0.995
    louder = step.add_step_noise(zero, plan, Spy(12, louder=1.05))["w"].double().numpy()
    assert chi2.sf(float(((louder * 4 / 3.0) ** 2).sum()), count) < 1e-6


def test_without_noise_an_update_is_the_clipped_mean_and_no_noise_is_drawn() -> None:
    plan = planned(8, 4, noise_multiplier=0.0)
    found = {"w": torch.tensor([[3.0, 4.0], [0.25, 0.0]])}
    cells = gradients.sum_clipped_cells(
        found, torch.ones(2, dtype=torch.bool), clip_norm=1.0, grid=plan.grid
    )
    noise = Spy(1)
    update = step.add_step_noise(cells, plan, noise)["w"]
    assert noise.asked == []
    assert update.tolist() == pytest.approx([(0.6 + 0.25) / 4, 0.8 / 4], rel=1e-5)
    doubled = step.add_step_noise(cells, plan, noise, project=lambda g: {"w": 2 * g["w"]})["w"]
    assert torch.equal(doubled, 2 * update)


def test_the_public_and_the_private_part_are_put_together() -> None:
    private, public = {"w": torch.tensor([1.0])}, {"w": torch.tensor([10.0])}
    assert step.combine_gradients(private, public, weight=0.5)["w"].item() == 6.0
    assert step.combine_gradients(private, None, weight=0.5)["w"].item() == 1.0
    assert step.combine_gradients(None, public, weight=0.5)["w"].item() == 5.0
    with pytest.raises(ValueError, match="got neither"):
        step.combine_gradients(None, None, weight=0.5)
