"""V is right, comes from public records alone, and neither order of projecting breaks the bound."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.audits.one_run import LikelihoodTracker, one_run_coins, score_by_coins, toss_coins
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.training import loop, subspace
from masquerade.training.loop import Workload
from masquerade.training.methods import Projected
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows
from masquerade.training.step import ALONG, PrivateSum, add_step_noise
from masquerade.training.subspace import Subspace

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

UNITS, CLASSES, WIDTH, RECORDS = 120, 3, 20, 12


def method(**fields: Any) -> Projected:
    known = {"epsilon": 8.0, "unit": "video", "batch": 30, "epochs": 4.0, "refresh": 4}
    known |= {"public_records": RECORDS, "directions": 6, "learning_rate": 0.5}
    return Projected(**(known | fields))


def short(steps: int = 10, noise_multiplier: float = 1.0, expected: int = 30) -> TrainingPlan:
    return TrainingPlan(
        sampler=PoissonSampling(units=UNITS, expected=expected),
        steps=steps,
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        delta=1e-5,
    )


def cloud(units: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, CLASSES, units)
    middles = np.random.default_rng(99).normal(size=(CLASSES, WIDTH)) * 1.5
    inputs = middles[targets] + rng.normal(size=(units, WIDTH)) * 0.6
    return Rows(
        private=torch.tensor(inputs, dtype=torch.float32),
        public=None,
        targets=torch.tensor(targets),
        slots=np.arange(units)[:, None],
    )


def rows() -> Rows:
    return replace(cloud(UNITS, 0), guide=cloud(RECORDS, 1))


def tail(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(WIDTH, CLASSES)


def run(net: Any, plan: TrainingPlan, how: Projected, **fields: Any) -> None:
    known = {"noise": Noise(), "work": Workload(physical=40), "progress": lambda *told: None}
    loop.run_training(net, fields.pop("rows", None) or rows(), how, plan, **(known | fields))


def found_of(gradients: np.ndarray, directions: int) -> Subspace:
    """The subspace of given gradients (m, p), of two weights."""
    halves = np.split(gradients, [7], axis=1)
    held = {f"w{n}": torch.tensor(half, dtype=torch.float32) for n, half in enumerate(halves)}
    weights = {name: one[0].clone() for name, one in held.items()}

    def each(_: Any, start: int, stop: int) -> Any:
        return {name: one[start:stop] for name, one in held.items()}

    space = Subspace(weights, records=len(gradients), directions=directions, each=each)
    space.renew_directions(weights, chunk=4)
    return space


def matrix(space: Subspace) -> np.ndarray:
    """(k, p)."""
    lines = [space.expand_numbers(one) for one in torch.eye(space.directions)]
    return np.stack([np.concatenate([v.numpy().ravel() for v in line.values()]) for line in lines])


@pytest.mark.parametrize("is_half", [False, True])
def test_directions_are_those_of_a_singular_value_decomposition(
    is_half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subspace, "_COLUMNS_PER_BLOCK", 16)  # so that there are several blocks
    if is_half:
        monkeypatch.setattr(subspace, "_MAX_FULL_NUMBERS", 1)
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(10, 60)) * 2.0 ** -np.arange(10)[:, None]
    space = found_of(gradients, 4)
    _, _, true = np.linalg.svd(gradients, full_matrices=False)
    found, exact = matrix(space), 2e-3 if is_half else 1e-5
    assert space.rank == 4
    assert np.abs(found @ found.T - np.eye(4)).max() < exact
    assert np.abs(np.abs(np.sum(found * true[:4], axis=1)) - 1).max() < exact
    given = {"w0": torch.tensor(gradients[:1, :7]), "w1": torch.tensor(gradients[:1, 7:])}
    assert np.allclose(
        space.measure_along({n: v.float() for n, v in given.items()}).numpy()[0],
        found @ gradients[0],
        atol=10 * exact,
    )


def test_there_are_no_more_directions_than_public_records_say() -> None:
    rng = np.random.default_rng(1)
    twice = np.repeat(rng.normal(size=(3, 40)), 2, axis=0)
    twice[5] = np.nan  # says nothing
    space = found_of(twice, 6)
    assert space.rank == 3
    assert np.allclose(matrix(space)[3:], 0)
    with pytest.raises(ValueError, match="as many directions as public records"):
        found_of(twice, 7)
    with pytest.raises(ValueError, match="as many directions as public records"):
        method(directions=RECORDS + 1)


def test_of_the_energy_of_noise_k_of_p_parts_are_left() -> None:
    rng = np.random.default_rng(2)
    directions, size = 5, 2_000
    space = found_of(rng.normal(size=(8, size)), directions)
    plan, noise, energies = short(noise_multiplier=3.0, expected=1), Noise(seed=3), []
    nothing = {"w0": torch.zeros(7, dtype=torch.int64), "w1": torch.zeros(size - 7).long()}
    short_nothing = {ALONG: torch.zeros(directions, dtype=torch.int64)}
    for _ in range(300):
        late = add_step_noise(nothing, plan, noise, project=space.project_gradient)
        early = add_step_noise(
            short_nothing, plan, noise, project=lambda f: space.expand_numbers(f[ALONG])
        )
        energies.append([sum(float((v**2).sum()) for v in one.values()) for one in (late, early)])
    share = np.mean(energies, axis=0) / (plan.sigma**2 * size)
    # chi-squared with 5 degrees of freedom: its mean over 300 draws is within 16 %, 4.4 errors
    assert np.all(np.abs(share / (directions / size) - 1) < 0.16)


@pytest.mark.parametrize("order", ["project_first", "clip_first"])
def test_no_unit_adds_more_than_the_bound_in_either_order(order: Any) -> None:
    net, how, plan = tail(), method(order=order), short(noise_multiplier=0.0)
    held = rows()
    held.private[0] *= 1e6  # would add the most
    held.private[1] = math.nan
    loss = loop._make_loss(net, how, held)
    weights = {name: value.detach() for name, value in net.named_parameters()}
    guide = loop._make_guide(loss, weights, held, how, Workload(physical=40))
    assert guide is not None
    guide.refresh_directions(0, weights)
    sums = PrivateSum(
        loss, weights, held, plan, physical=4, see=lambda seen: seen, within=guide.clip_subspace
    )
    for unit in (0, 1, 2):
        cells = sums.sum_cells(np.array([unit]))
        norm = math.sqrt(sum(float(((v.double() * plan.grid) ** 2).sum()) for v in cells.values()))
        assert norm <= 1.0 and (norm > 0.9 if unit == 0 else True) and (norm == 0) == (unit == 1)
        assert set(cells) == ({ALONG} if order == "project_first" else set(weights))


@pytest.mark.parametrize("order", ["project_first", "clip_first"])
def test_weights_move_along_the_directions_alone(order: Any) -> None:
    net, how = tail(), method(order=order, refresh=100, momentum=0.0)
    before = torch.cat([v.detach().flatten() for v in net.parameters()])
    held = rows()
    loss = loop._make_loss(net, how, held)
    weights = {name: value.detach().clone() for name, value in net.named_parameters()}
    guide = loop._make_guide(loss, weights, held, how, Workload(physical=40))
    assert guide is not None
    guide.refresh_directions(0, weights)
    run(net, short(), how, rows=held)
    moved = torch.cat([v.detach().flatten() for v in net.parameters()]) - before
    names = [name for name, _ in net.named_parameters()]
    parts = dict(zip(names, moved.split([WIDTH * CLASSES, CLASSES]), strict=True))
    kept = guide.subspace.project_gradient(parts)
    back = torch.cat([kept[name].flatten() for name in names])
    assert float((back - moved).norm()) < 1e-4 * float(moved.norm()) and float(moved.norm()) > 0.01


def test_it_learns_with_noise_and_both_orders_without() -> None:
    other = cloud(UNITS, 5)

    def accuracy(net: Any) -> float:
        return float((net(other.private).argmax(dim=1) == other.targets).float().mean())

    for fields in ({"epsilon": math.inf}, {"epsilon": math.inf, "order": "clip_first"}, {}):
        how, net = method(**fields), tail()
        run(net, short(16, noise_multiplier=0.0 if fields else 1.0), how)
        assert accuracy(net) > 0.8, fields


def test_a_stopped_run_finds_the_same_directions_again(tmp_path: Path) -> None:
    """Stopped between two refreshes, V is of the weights at the earlier one."""
    seen: dict[str, list[np.ndarray]] = {"whole": [], "again": []}

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 7:
            raise Stop

    file, how = tmp_path / "run", method(refresh=4)
    work = Workload(physical=40, checkpoint=file, every=3)
    renewed = Subspace.renew_directions

    def noted(into: str) -> Any:
        def renew(self: Subspace, weights: Any, *, chunk: int) -> None:
            renewed(self, weights, chunk=chunk)
            seen[into].append(matrix(self))

        return renew

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subspace, "renew_directions", noted("whole"))
        with pytest.raises(Stop):
            run(tail(), short(12), how, work=work, progress=stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subspace, "renew_directions", noted("again"))
        run(tail(), short(12), how, work=work)
    assert len(seen["whole"]) == 2  # at steps 0 and 4; the checkpoint is of step 6
    assert np.array_equal(seen["again"][0], seen["whole"][1])
    assert len(seen["again"]) == 2  # and then at step 8


def test_public_records_must_be_there() -> None:
    with pytest.raises(ValueError, match="Expected public records with projected, got none"):
        run(tail(), short(), method(), rows=cloud(UNITS, 0))
    with pytest.raises(ValueError, match="Expected 50 public records, got 12"):
        run(tail(), short(), method(public_records=50))


CANARIES = 400


def sung(share: float, noise: Noise) -> tuple[float, float]:
    """What a run with canaries claims, and shows; of the noise that it claims it has a share.

    Canary i is the i-th input alone, far too long, and its public twin spans its own direction:
    whoever chooses public records as badly as possible sees every canary where nobody else is.
    """
    sampler = PoissonSampling(units=CANARIES, expected=100)
    plan = replace(short(30, noise_multiplier=4.0), sampler=sampler)
    is_in, inputs = toss_coins(CANARIES, noise), torch.eye(CANARIES) * 1e3
    slots = np.where(is_in[:, None], np.arange(CANARIES)[:, None], -1)
    known = {"public": None, "targets": torch.zeros(CANARIES, dtype=torch.int64)}
    twins = Rows(private=torch.eye(CANARIES), slots=np.arange(CANARIES)[:, None], **known)
    held = Rows(private=inputs, slots=slots, guide=twins, **known)
    net = torch.nn.Linear(CANARIES, 2, bias=False)
    torch.nn.init.zeros_(net.weight)
    ratio = LikelihoodTracker(
        CANARIES, sampling_prob=0.25, noise_multiplier=4.0, relation=Relation.ZERO_OUT
    )

    def see(done: int, total: int) -> None:
        along = (net.weight.grad[1] - net.weight.grad[0]).double().numpy() / math.sqrt(2)
        ratio.observe_sum(along * plan.sampler.expected / plan.clip_norm)

    how = method(
        public_records=CANARIES,
        directions=CANARIES,
        refresh=100,
        learning_rate=1e-12,  # a canary that was learned would pull no more
    )
    less = replace(plan, noise_multiplier=share * plan.noise_multiplier)
    run(net, less, how, rows=held, noise=noise, progress=see, work=Workload(physical=200))
    scores = score_by_coins(ratio.total, is_in, attack="every update")
    found = one_run_coins(scores, delta=plan.delta)
    return plan.compute_epsilon(Relation.ZERO_OUT), found.epsilon_at_least


def test_an_audit_of_the_subspace_finds_the_claim_kept_and_too_little_noise() -> None:
    claim, shown = sung(1.0, Noise(seed=1))
    assert shown <= claim
    _, cheated = sung(0.1, Noise(seed=2))
    assert cheated > claim, "a tenth of the noise is caught"
