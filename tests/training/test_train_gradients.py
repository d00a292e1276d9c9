"""Every record's gradient is its own, clipped for good; a unit of several rows is clipped once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.errors import BadInput
from masquerade.networks import mvit_layers
from masquerade.noise import Noise
from masquerade.training import gradients, loop, step
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows, gather_rows, slots_of

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

HUGE = [0.0, -0.0, 1e-45, -3e38, 3.4e38, 1e-20, math.nan, math.inf, -math.inf]
numbers = st.one_of(st.sampled_from(HUGE), st.floats(width=32, allow_nan=True))
METHOD = DpSgd(epsilon=8.0, unit="subject")


def planned(units: int = 8, expected: int = 8, **fields: Any) -> TrainingPlan:
    known = {"steps": 1, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}
    return TrainingPlan(sampler=PoissonSampling(units=units, expected=expected), **(known | fields))


def norm(cells: dict[str, Any], grid: float) -> Fraction:
    """The squared norm, exactly."""
    whole = sum(int(c) ** 2 for value in cells.values() for c in value.flatten().tolist())
    return Fraction(whole) * Fraction(grid) ** 2


@settings(max_examples=150)
@given(
    st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1, max_size=6),
    st.sampled_from([1e-3, 0.7, 1.0, 25.0]),
    st.integers(-40, -3),
)
def test_nobody_adds_more_than_the_bound(
    given_rows: list[list[float]], clip_norm: float, power: int
) -> None:
    values, grid = torch.tensor(given_rows), 2.0**power
    found = {"a": values[:, :3], "b": values[:, 3:].reshape(-1, 2, 1)}
    bound = Fraction(clip_norm) ** 2
    total = {"a": torch.zeros(3, dtype=torch.int64), "b": torch.zeros(2, 1, dtype=torch.int64)}
    for number in range(len(values)):
        alone = gradients.sum_clipped_cells(
            {name: value[number : number + 1] for name, value in found.items()},
            torch.tensor([True]),
            clip_norm=clip_norm,
            grid=grid,
        )
        assert norm(alone, grid) <= bound
        if not values[number].isfinite().all():
            assert norm(alone, grid) == 0
        total = {name: total[name] + alone[name] for name in total}
    present = torch.ones(len(values), dtype=torch.bool)
    cells = gradients.sum_clipped_cells(found, present, clip_norm=clip_norm, grid=grid)
    for name, value in cells.items():  # norms may round by shape, a cell a record at the most
        assert (value - total[name]).abs().max() <= len(values), "no one poisons others"
    assert norm(cells, grid) <= len(values) ** 2 * bound


def test_contributions_are_cut_towards_zero_and_small_ones_are_not_scaled() -> None:
    grid = 2.0**-10
    found = {"w": torch.tensor([[0.9, -0.9, 1.5, -1.5, 2.0, -2.0]]) * grid}
    cells = gradients.sum_clipped_cells(found, torch.tensor([True]), clip_norm=1.0, grid=grid)
    assert cells["w"].tolist() == [0, 0, 1, -1, 2, -2]


def test_those_who_only_fill_up_add_nothing() -> None:
    found = {"w": torch.tensor([[0.5, 0.0], [9.0, 9.0], [math.nan, 1.0]])}
    present = torch.tensor([True, False, False])
    cells = gradients.sum_clipped_cells(found, present, clip_norm=1.0, grid=2.0**-10)
    assert cells["w"].tolist() == [512, 0]
    with pytest.raises(ValueError, match="clip_norm"):
        gradients.sum_clipped_cells(found, present, clip_norm=0.0, grid=2.0**-10)


def test_a_weight_without_axes_is_clipped_too() -> None:
    found = {"scale": torch.tensor([3.0, -0.5])}
    cells = gradients.sum_clipped_cells(
        found, torch.ones(2, dtype=bool), clip_norm=1.0, grid=2.0**-10
    )
    update = step.add_step_noise(cells, planned(), Noise(seed=1))
    assert cells["scale"].shape == update["scale"].shape == ()


def mlp() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.LayerNorm(9), torch.nn.Linear(9, 4)
    )


def conv() -> Any:
    torch.manual_seed(2)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.GroupNorm(2, 8), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(8 * 9, 4),
    )  # fmt: skip


def mvit_tail() -> Any:
    torch.manual_seed(3)
    return mvit_layers.split_mvit(mvit_layers.make_mvit("mvit_small", classes=4), "last_norms")[1]


NETS = [(mlp, (6,)), (conv, (3, 8, 8)), (mvit_tail, (129, 128))]
each_net = pytest.mark.parametrize(("make", "shape"), NETS, ids=["mlp", "conv", "mvit"])


def records(shape: tuple[int, ...], count: int = 5) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(count, *shape, generator=generator), torch.arange(count) % 4


def loss_of(net: Any) -> gradients.Loss:
    def loss(weights: Any, one: Any, target: Any) -> Any:
        out = torch.func.functional_call(net, dict(weights), (one[None],))
        return torch.nn.functional.cross_entropy(out, target[None])

    return loss


def trained(net: Any) -> dict[str, Any]:
    return {name: value.detach() for name, value in net.named_parameters() if value.requires_grad}


@each_net
def test_gradients_of_all_records_are_those_of_one_after_the_other(
    make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    net, (inputs, targets) = make(), records(shape)
    found = gradients.per_record(loss_of(net), trained(net), inputs, targets, chunk=2)
    assert set(found) == set(trained(net))
    wanted = [value for value in net.parameters() if value.requires_grad]
    for number in range(len(inputs)):
        out = net(inputs[number : number + 1])
        said = torch.nn.functional.cross_entropy(out, targets[number : number + 1])
        alone = torch.cat([g.flatten() for g in torch.autograd.grad(said, wanted)])
        ours = torch.cat([found[name][number].flatten() for name in trained(net)])
        assert (ours - alone).norm() <= 1e-5 * alone.norm()


@each_net
def test_nobodys_gradient_depends_on_place_or_company(
    make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    net, (inputs, targets) = make(), records(shape, 8)

    def of(chosen: list[int]) -> dict[str, Any]:
        some = torch.tensor(chosen)
        return gradients.per_record(
            loss_of(net), trained(net), inputs[some], targets[some], chunk=len(chosen)
        )

    one, other, moved = of([0, 1, 2, 3]), of([0, 6, 7, 5]), of([5, 6, 7, 0])
    # Neighbouring data sets leave everyone's place as it is: there others must not count at all.
    assert all(torch.equal(one[name][0], other[name][0]) for name in one), "bit for bit"
    assert not all(torch.equal(one[name][1], other[name][1]) for name in one)
    # At another place a kernel may round differently, and no more than that.
    apart = gradients.compute_norms({name: moved[name][3:] - one[name][:1] for name in one})
    assert (apart <= 1e-5 * gradients.compute_norms({name: one[name][:1] for name in one})).all()


@pytest.mark.parametrize(("make", "shape"), NETS[:2], ids=["mlp", "conv"])
def test_gradients_are_those_of_an_independent_implementation(
    make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opacus = pytest.importorskip("opacus.grad_sample")
        net, (inputs, targets) = make(), records(shape)
        found = gradients.per_record(loss_of(net), trained(net), inputs, targets, chunk=5)
        hooked = opacus.GradSampleModule(net, loss_reduction="sum")
        loss = torch.nn.functional.cross_entropy(hooked(inputs), targets, reduction="sum")
        loss.backward()
    for name, value in net.named_parameters():
        torch.testing.assert_close(value.grad_sample, found[name], rtol=1e-5, atol=1e-6)


def linear() -> Any:
    torch.manual_seed(5)
    return torch.nn.Linear(3, 2)


def laid(inputs: Any, slots: list[list[int]]) -> Rows:
    targets = torch.arange(len(inputs)) % 2
    return Rows(private=inputs, public=None, targets=targets, slots=np.array(slots))


def drawn(count: int, *, seed: int = 9) -> Any:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def cells_of(
    tail: Any, rows: Rows, units: list[int], plan: TrainingPlan, physical: int = 4
) -> dict[str, Any]:
    loss = loop._make_loss(tail, METHOD, rows)
    work = loop.Workload(physical=physical)
    sums = loop._private_sum(loss, trained(tail), rows, plan, work)
    return sums.sum_cells(np.array(units, int))


def apart(one: dict[str, Any], other: dict[str, Any], grid: float) -> Fraction:
    return norm({name: one[name] - other[name] for name in one}, grid)


def test_a_batch_worked_on_in_pieces_gives_the_same_update() -> None:
    tail, plan = mlp(), planned(16)
    inputs, _ = records((6,), 16)
    rows = Rows(
        private=inputs,
        public=None,
        targets=torch.arange(16) % 4,
        slots=np.arange(16)[:, None],
    )
    whole, *pieces = (
        cells_of(tail, rows, [0, 2, 3, 5, 8, 9, 13], plan, physical) for physical in (8, 4, 2)
    )
    for piece in pieces:
        assert apart(whole, piece, plan.grid) <= (1e-5) ** 2 * norm(whole, plan.grid)
    found = gradients.per_record(loss_of(tail), trained(tail), *records((6,), 16), chunk=16)
    keep = torch.ones(16, dtype=torch.bool)
    sums = []
    for size in (16, 8, 4):
        cut = [
            gradients.sum_clipped_cells(
                {name: value[at : at + size] for name, value in found.items()},
                keep[:size],
                clip_norm=0.5,
                grid=2.0**-20,
            )
            for at in range(0, 16, size)
        ]
        sums.append({name: sum(one[name] for one in cut) for name in found})
    for name in found:  # norms may round by shape, a cell a record at the most
        assert all((sums[0][name] - one[name]).abs().max() <= 16 for one in sums[1:])


def test_a_units_gradients_are_averaged_before_they_are_clipped() -> None:
    tail, plan = linear(), planned(2, 2, clip_norm=0.1)
    inputs = drawn(3) * torch.tensor([[30.0], [-2.0], [1.0]])
    rows = laid(inputs, [[0, 1], [2, -1]])
    found = gradients.per_record(loss_of(tail), trained(tail), inputs, rows.targets, chunk=3)
    mean = {name: value[:2].mean(dim=0, keepdim=True) for name, value in found.items()}
    one, other = torch.tensor([True]), {name: value[2:] for name, value in found.items()}
    scale = {"clip_norm": 0.1, "grid": plan.grid}
    ours = cells_of(tail, rows, [0], plan)
    right = gradients.sum_clipped_cells(mean, one, **scale)
    assert apart(ours, right, plan.grid) < (1e-5) ** 2
    each = gradients.sum_clipped_cells(
        {name: value[:2] for name, value in found.items()}, torch.tensor([True, True]), **scale
    )
    assert apart(ours, {name: value // 2 for name, value in each.items()}, plan.grid) > 0.01**2
    few = cells_of(tail, rows, [1], plan)  # a unit with fewer rows: the mean over those it has
    assert apart(few, gradients.sum_clipped_cells(other, one, **scale), plan.grid) < (1e-5) ** 2


def test_a_subject_has_no_more_recordings_than_the_cap() -> None:
    owners = ["a", "b", "a", "a", "b", "c"]
    slots = slots_of(owners, segments=2, most=2)
    assert slots.tolist() == [[0, 1, 4, 5], [2, 3, 8, 9], [10, 11, -1, -1]]
    tail, plan, inputs = linear(), planned(3, 3), drawn(12)
    before = cells_of(tail, laid(inputs, slots.tolist()), [0, 1, 2], plan)
    changed = inputs.clone()
    changed[6:8] = 1e6  # the third recording of a
    after = cells_of(tail, laid(changed, slots.tolist()), [0, 1, 2], plan)
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(BadInput, match="at least one recording"):
        slots_of([], segments=1, most=1)
    with pytest.raises(ValueError, match="most"):
        slots_of(["a"], segments=1, most=0)


def test_shares_of_a_unit_add_up_to_one_and_of_nobody_to_zero() -> None:
    rows = laid(drawn(4), [[0, 1, 2], [3, -1, -1]])
    inputs, targets, shares = gather_rows(rows, np.array([1, -1, 0]))
    assert inputs.shape == (3, 3, 3) and targets.shape == (3, 3)
    assert shares.tolist() == [[1, 0, 0], [0, 0, 0], pytest.approx([1 / 3] * 3)]


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a row in two"):
        laid(drawn(3), [[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="a target for each"):
        Rows(private=drawn(3), public=None, targets=torch.zeros(2), slots=np.zeros((1, 1), int))
    with pytest.raises(ValueError, match="one shape"):
        Rows(
            private=drawn(3),
            public=drawn(2),
            targets=torch.zeros(3),
            slots=np.zeros((1, 1), int),
        )


@settings(max_examples=60)
@given(
    st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=12, max_size=12),
    st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True),
    st.sampled_from([0.05, 1.0, 3.0]),
)
def test_removing_a_unit_changes_the_sum_by_no_more_than_the_bound(
    values: list[list[float]], batch: list[int], clip_norm: float
) -> None:
    tail, plan = linear(), planned(6, 6, clip_norm=clip_norm)
    rows = laid(torch.tensor(values), [[2 * unit, 2 * unit + 1] for unit in range(6)])
    units, nobody = sorted(batch), -1
    whole, less = (cells_of(tail, rows, [one, *units[1:]], plan, 2) for one in (units[0], nobody))
    assert apart(whole, less, plan.grid) <= Fraction(clip_norm) ** 2


@pytest.mark.parametrize("planted", [math.nan, math.inf, 3.4e38], ids=["nan", "inf", "finite"])
def test_replacing_a_unit_changes_nobody_elses_contribution(planted: float) -> None:
    tail, plan, units = linear(), planned(9, 9), list(range(9))
    slots = [[0, 1], *([row, -1] for row in range(2, 10))]
    inputs = drawn(10)
    rows, changed = laid(inputs, slots), inputs.clone()
    changed[0] = planted * tail.weight[0].detach().sign()
    before = cells_of(tail, rows, units, plan)
    after = cells_of(tail, laid(changed, slots), units, plan)
    assert apart(before, after, plan.grid) <= 4 * plan.clip_norm**2
    others = [cells_of(tail, laid(x, slots), units[1:], plan) for x in (inputs, changed)]
    assert apart(*others, plan.grid) == 0
