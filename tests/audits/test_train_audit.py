"""The training code itself put to the test: a model of one weight, every iterate seen.

One record's gradient is +C, -C or absent; nobody else moves the weight. What the loop draws, clips,
sums and adds is all that stands between the attacker and the record.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import binomtest, chi2, kstest, norm

from masquerade.accounting.compose import compute_epsilon
from masquerade.audits.bounds import clopper_pearson, poisson_tradeoff
from masquerade.audits.paper_games import MaskDpBatches
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.scores import Scores
from masquerade.training import loop, step
from masquerade.training.loop import Workload
from masquerade.training.method import Method
from masquerade.training.methods import MaskDp
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SURE = 1 - 1e-6
UNITS, CLIP = 4, 0.5


class QuarterNoise(Noise):
    """A liar: draws a quarter of the scale that it is asked for."""

    def sample_gaussian(self, sigma: float, shape: Any, *, grid: float | None = None) -> np.ndarray:
        drawn = super().sample_gaussian(sigma, shape, grid=grid) / 4
        return drawn if grid is None else np.rint(drawn / grid) * grid


def rows_with(value: float | None, *, public: float | None = None) -> Rows:
    """Record 0 holds ``value``, or nothing that moves the weight; nobody else does."""
    private = torch.zeros(UNITS, 1)
    private[0] = 0.0 if value is None else value
    shown = None
    if public is not None:
        shown = torch.zeros(UNITS, 1)
        shown[0] = public
    targets = torch.zeros(UNITS, dtype=torch.int64)
    return Rows(private=private, public=shown, targets=targets, slots=np.arange(UNITS)[:, None])


def planned(
    z: float, *, expected: int = 1, is_revealed: bool = False, steps: int = 1
) -> TrainingPlan:
    sampler = PoissonSampling(units=UNITS, expected=expected, is_revealed=is_revealed)
    return TrainingPlan(
        sampler=sampler, steps=steps, clip_norm=CLIP, noise_multiplier=z, delta=1e-5
    )


def loss(weights: Any, inputs: Any, wanted: Any) -> Any:
    """Its gradient is the record itself, averaged over rows; the record's is clipped to C."""
    _, shares = wanted
    return (weights["w"] * inputs[:, 0] * shares).sum()


def updates(
    method: Method, rows: Rows, plan: TrainingPlan, noise: Noise, count: int, *, first: int = 0
) -> np.ndarray:
    """The updates of ``count`` steps by the loop's own code, of the sum's own scale."""
    weights, work = {"w": torch.zeros(1)}, Workload(physical=UNITS)
    found = [
        loop._compute_update(loss, weights, rows, method, plan, first + n, noise=noise, work=work)
        for n in range(count)
    ]
    return np.array([float(one["w"]) for one in found]) * plan.sampler.expected


def many(value: float | None, plan: TrainingPlan, noise: Noise, count: int) -> np.ndarray:
    """The same for very many steps: the two sums that there can be, drawn and noised together."""
    weights, rows = {"w": torch.zeros(1)}, rows_with(value)
    work = loop.Workload(physical=UNITS)
    sums = [
        loop._private_sum(loss, weights, rows, plan, work).sum_cells(np.array(batch))["w"]
        for batch in ([1, 2, 3], [0, 1, 2, 3])
    ]
    is_in = [int(0 in plan.sampler.sample_batch(noise)) for _ in range(count)]
    cells = torch.stack(sums)[torch.tensor(is_in), 0]
    found: np.ndarray = step.add_step_noise({"w": cells}, plan, noise)["w"].double().numpy()
    return found * plan.sampler.expected


def scored(
    worlds: tuple[float | None, float | None],
    plan: TrainingPlan,
    noise: Noise,
    *,
    runs: int,
    steps: int,
) -> Scores:
    """The likelihood ratio of both worlds, from every iterate of ``runs`` runs."""
    q, sigma = plan.sampler.sampling_prob, plan.noise_multiplier * CLIP

    def density(seen: np.ndarray, value: float | None) -> np.ndarray:
        if value is None:
            return norm.logpdf(seen, 0, sigma)
        mean = np.clip(value, -CLIP, CLIP)
        return np.logaddexp(
            np.log1p(-q) + norm.logpdf(seen, 0, sigma), np.log(q) + norm.logpdf(seen, mean, sigma)
        )

    def scores(value: float | None) -> np.ndarray:
        seen = many(value, plan, noise, runs * steps).reshape(runs, steps)
        found: np.ndarray = (density(seen, worlds[1]) - density(seen, worlds[0])).sum(axis=1)
        return found

    return Scores(without=scores(worlds[0]), within=scores(worlds[1]), attack="likelihood ratio")


WORLDS: dict[Relation, tuple[float | None, float | None]] = {
    Relation.ZERO_OUT: (None, 100.0),  # far above C: clipping is put to the test too
    Relation.REPLACE_ONE: (-100.0, 100.0),
}


def claimed(relation: Relation, *, steps: int, z: float) -> float:
    return compute_epsilon(planned(z).sampler.event(z, steps), delta=1e-5, relation=relation)


@pytest.mark.parametrize("relation", WORLDS, ids=lambda relation: relation.value)
def test_the_step_stays_below_its_claim_and_a_quarter_of_the_noise_is_caught(
    relation: Relation,
) -> None:
    z, claim = 3.0, claimed(relation, steps=6, z=3.0)
    for noise, is_caught in ((Noise(seed=1), False), (QuarterNoise(seed=2), True)):
        found = scored(WORLDS[relation], planned(z), noise, runs=4000, steps=6)
        evidence = clopper_pearson(found, delta=1e-5, confidence=SURE)
        assert evidence.refutes(claim) == is_caught, (evidence, claim)


@pytest.mark.slow
@pytest.mark.parametrize("relation", WORLDS, ids=lambda relation: relation.value)
def test_evidence_about_the_step_comes_close_to_its_claim(relation: Relation) -> None:
    z, claim = 1.0, claimed(relation, steps=6, z=1.0)
    run = {"sampling_prob": 0.25, "steps": 6, "relation": relation, "confidence": SURE}
    found = scored(WORLDS[relation], planned(z), Noise(seed=3), runs=40_000, steps=6)
    assert 0.6 * claim <= poisson_tradeoff(found, delta=1e-5, **run).epsilon_at_least <= claim
    found = scored(WORLDS[relation], planned(z), QuarterNoise(seed=4), runs=4_000, steps=6)
    assert poisson_tradeoff(found, delta=1e-5, **run).refutes(claim)


STEPS = 1000
FAR = 1024.0  # a public gradient of record 0 that everyone knows, far above the noise


class Watched(Noise):
    """Remembers whether record 0 was in each private batch."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.was_in: list[bool] = []
        self.drawn: list[int] = []  # records in each, one at least, as the sum is divided by

    def sample_poisson_batch(self, sampling_prob: float, count: int) -> np.ndarray:
        found = super().sample_poisson_batch(sampling_prob, count)
        self.was_in.append(bool(found[0]))
        self.drawn.append(max(1, int(found.sum())))
        return found


def mask_dp(form: Literal["independent", "as_published"]) -> MaskDp:
    return MaskDp(epsilon=8.0, unit="video", form=form, public_batch=1)


def taken_apart(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether record 0 is in the public batch, and the private sum; what any attacker can do."""
    sizes = FAR / np.arange(1, UNITS + 1)  # the public part is a mean over its batch
    means = np.concatenate([[0.0], sizes])
    nearest = np.abs(seen[:, None] - means).argmin(axis=1)
    return nearest > 0, seen - means[nearest]


def test_as_published_both_parts_have_one_batch_and_the_law_of_the_game() -> None:
    plan, noise, value = planned(4.0, is_revealed=True), Watched(5), 100.0
    seen = updates(mask_dp("as_published"), rows_with(value, public=FAR), plan, noise, STEPS)
    sums = seen * np.array(noise.drawn)  # an attacker knows the batch, and so its size
    is_in, was_in = sums > FAR / 2, np.array(noise.was_in)
    private = sums - FAR * is_in
    assert np.array_equal(is_in, was_in), "the update shows who was drawn, every time"
    assert binomtest(int(was_in.sum()), was_in.size, 0.25).pvalue > 0.001
    rest = (private - CLIP * was_in) / CLIP  # what the game draws: N(0, z^2), plus +1 if in
    assert kstest(rest, norm(0, 4.0).cdf).pvalue > 0.001
    for wrong in (1 / 1.2, 1.2):
        spread = chi2.cdf(float(((rest * wrong / 4.0) ** 2).sum()), rest.size)
        assert min(spread, 1 - spread) < 1e-5


def test_independent_batches_do_not_show_who_was_drawn() -> None:
    plan, noise = planned(4.0), Watched(6)
    method, rows = mask_dp("independent"), rows_with(100.0, public=FAR)
    is_public, private = taken_apart(updates(method, rows, plan, noise, STEPS))
    was_in = np.array(noise.was_in)
    assert binomtest(int(was_in.sum()), was_in.size, 0.25).pvalue > 0.001
    assert binomtest(int(is_public.sum()), is_public.size, 1 / UNITS).pvalue > 0.001
    both = int((was_in & is_public).sum())
    assert binomtest(both, int(is_public.sum()), 0.25).pvalue > 0.001, "apart from each other"
    assert kstest((private - CLIP * was_in) / CLIP, norm(0, 4.0).cdf).pvalue > 0.001
    other = rows_with(-7.0, public=FAR)
    again = taken_apart(updates(method, other, plan, Noise(seed=9), 200))[0]
    assert np.array_equal(again, is_public[:200]), "public batches know nothing private"
    shifted = updates(method, other, plan, Noise(seed=9), 200, first=200)
    assert not np.array_equal(taken_apart(shifted)[0], again), "and change with the step"


def test_the_game_speaks_of_the_numbers_that_a_plan_accounts() -> None:
    sampler = {False: PoissonSampling(units=100, expected=1)}
    sampler[True] = PoissonSampling(units=100, expected=1, is_revealed=True)
    for form, is_revealed in (("sound", False), ("revealed", True)):
        game = MaskDpBatches(form=form, noise_multiplier=2.0, steps=50)  # type: ignore[arg-type]
        plan = TrainingPlan(
            sampler=sampler[is_revealed],
            steps=50,
            clip_norm=CLIP,
            noise_multiplier=2.0,
            delta=1e-5,
        )
        assert 0 <= plan.compute_epsilon(Relation.REPLACE_ONE) - game.claim().epsilon < 1e-4
