"""One LSTM and many: right gradients for every record, and nobody learns from another's records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from masquerade.networks import lstm, lstm_stack
from masquerade.networks.lstm_stack import LSTM, LstmStack, StackSchedule

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

CHANNELS, CLASSES, HIDDEN, LENGTH = 3, 4, 8, 12
each_depth = pytest.mark.parametrize("layers", [1, 2])


def made(seed: int = 0, layers: int = 1) -> LSTM:
    torch.manual_seed(seed)
    net = LSTM(CHANNELS, CLASSES, HIDDEN, layers)
    return net.with_normalisation(np.array([0.5, 0.0, -1.0]), np.array([2.0, 1.0, 0.5]))


def per_record(net: LSTM, inputs: Any, wanted: Any) -> Any:
    return net.per_record(dict(net.named_parameters()), inputs, wanted)


def lesson(records: int = 5, rows: int = 1, seed: int = 1) -> tuple[Any, tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(seed)
    inputs = 2 * torch.randn(records, rows, LENGTH, CHANNELS, generator=generator)
    targets = torch.randint(0, CLASSES, (records, rows), generator=generator)
    shares = torch.rand(records, rows, generator=generator) + 0.1
    return inputs, (targets, shares / shares.sum(dim=1, keepdim=True))


def apart(found: Any, wanted: Any) -> float:
    return float((found - wanted).norm() / wanted.norm().clamp_min(1e-30))


def loss_of(net: LSTM, weights: Any, inputs: Any, wanted: Any) -> Any:
    """Of one record, as private training has it."""
    out = torch.func.functional_call(net, dict(weights), (inputs,))
    each = torch.nn.functional.cross_entropy(out, wanted[0], reduction="none")
    return (each * wanted[1]).sum()


# One network.


@each_depth
def test_weights_are_those_of_torchs_own_layers_and_load_both_ways(layers: int) -> None:
    net, inputs = made(layers=layers), lesson()[0][:, 0]
    theirs = torch.nn.LSTM(CHANNELS, HIDDEN, layers, batch_first=True)
    head = torch.nn.Linear(HIDDEN, CLASSES)
    theirs.load_state_dict(net.lstm.state_dict())
    head.load_state_dict(net.head.state_dict())
    seen = (inputs - torch.tensor([0.5, 0.0, -1.0])) / torch.tensor([2.0, 1.0, 0.5])
    assert torch.allclose(net(inputs), head(theirs(seen)[0].mean(dim=1)), atol=1e-6)
    other = made(seed=9, layers=layers)
    other.lstm.load_state_dict(theirs.state_dict())
    other.head.load_state_dict(head.state_dict())
    assert torch.equal(other(inputs), net(inputs))


def test_mean_and_scale_are_kept_with_the_weights_and_are_not_trained() -> None:
    net = made()
    assert {"mean", "scale"} <= set(net.state_dict())
    assert not {"mean", "scale"} & {name for name, _ in net.named_parameters()}


@pytest.mark.parametrize("fields", [{"scale": [1.0, 0.0, 1.0]}, {"mean": [0.0, math.nan, 0.0]}])
def test_a_scale_of_zero_or_a_mean_that_is_no_number_is_refused(fields: Any) -> None:
    given = {"mean": np.zeros(3), "scale": np.ones(3)} | fields
    with pytest.raises(ValueError, match=next(iter(fields))):
        LSTM(CHANNELS, CLASSES).with_normalisation(**given)
    with pytest.raises(ValueError, match="hidden"):
        LSTM(CHANNELS, CLASSES, hidden=0)


@each_depth
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("names", [None, ("lstm.weight_hh_l0", "head.bias")])
def test_each_records_gradient_is_the_one_it_has_alone(
    layers: int, rows: int, names: tuple[str, ...] | None
) -> None:
    net, (inputs, wanted) = made(layers=layers), lesson(rows=rows)
    weights = dict(net.named_parameters())
    if names is not None:  # some weights, and not the network's own
        others = dict(made(5, layers).named_parameters())
        weights = {name: others[name] for name in names}
    found = net.per_record(weights, inputs, wanted)
    assert list(found) == list(weights)
    for record in range(len(inputs)):
        loss = loss_of(net, weights, inputs[record], [each[record] for each in wanted])
        alone = torch.autograd.grad(loss, list(weights.values()))
        for (name, held), gradient in zip(weights.items(), alone, strict=True):
            assert found[name].shape == (len(inputs), *held.shape)
            assert apart(found[name][record], gradient) < 1e-5


def test_a_record_of_one_window_may_leave_out_the_axis() -> None:
    net, (inputs, wanted) = made(), lesson()
    found = per_record(net, inputs[:, 0], (wanted[0][:, 0], wanted[1][:, 0]))
    for name, value in per_record(net, inputs, wanted).items():
        assert torch.equal(found[name], value)
    with pytest.raises(ValueError, match="a target and a share"):
        per_record(net, inputs, (wanted[0][1:], wanted[1]))


@pytest.mark.parametrize("value", [7.0, math.nan])
def test_another_record_changes_nothing_and_a_share_of_zero_adds_nothing(value: float) -> None:
    net, (inputs, (targets, shares)) = made(layers=2), lesson()
    before = per_record(net, inputs, (targets, shares))
    inputs[2] = value
    shares[0] = 0.0
    after = per_record(net, inputs, (targets, shares))
    for name in before:
        assert torch.equal(before[name][[1, 3, 4]], after[name][[1, 3, 4]])
        assert not torch.equal(before[name][2], after[name][2])
        assert not after[name][0].any()


def test_tiny_numbers_count_again_afterwards() -> None:
    def counts() -> bool:
        return bool(torch.tensor(1e-39) * 0.5)

    assert counts()
    with lstm.flush_tiny_to_zero():
        assert not counts()
        with lstm.flush_tiny_to_zero():
            assert not counts()
        assert not counts()
    assert counts()


# Many.


@pytest.fixture(params=["apart", "together"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Also what only a GPU would take, on the processor."""
    if request.param == "together":
        monkeypatch.setattr(lstm_stack, "_run_one_by_one", lstm_stack._run_all_at_once)
    return str(request.param)


@each_depth
@pytest.mark.usefixtures("way")
def test_a_stack_says_what_its_members_say_and_has_their_gradients(layers: int) -> None:
    members = [made(seed, layers) for seed in range(3)]
    for place, member in enumerate(members):
        member.mean += place
        member.scale *= place + 1
    stack, windows = LstmStack(members), lesson(3, rows=5)[0]
    given = torch.linspace(-1, 1, 5 * CLASSES).reshape(5, CLASSES)
    said = stack(windows)
    (said * given).sum().backward()
    held = dict(stack.named_parameters())
    for place, member in enumerate(members):
        alone = member(windows[place])
        assert torch.allclose(said[place], alone, atol=1e-5)
        (alone * given).sum().backward()
        for name, weight in member.named_parameters():
            assert apart(held[name].grad[place], weight.grad) < 1e-5


def test_members_come_back_as_they_were_and_no_random_number_is_used_up() -> None:
    members = [made(seed, layers=2) for seed in range(3)]
    state = torch.get_rng_state()
    stack = LstmStack(members)
    for place, member in enumerate(members):
        found = stack.copy_member(place)
        assert all(value.requires_grad for value in found.parameters())
        for name, value in member.state_dict().items():
            assert torch.equal(found.state_dict()[name], value)
    assert torch.equal(torch.get_rng_state(), state)
    assert list(stack.state_dict()) == list(members[0].state_dict())


def test_a_new_stack_holds_the_networks_that_one_would_make_one_after_the_other() -> None:
    torch.manual_seed(3)
    stack = lstm_stack.make_random_stack(3, CHANNELS, CLASSES, hidden=HIDDEN)
    torch.manual_seed(3)
    members = [LSTM(CHANNELS, CLASSES, HIDDEN) for _ in range(3)]
    windows = lesson(3, rows=2)[0]
    for place, member in enumerate(members):
        assert torch.allclose(stack(windows)[place], member(windows[place]), atol=1e-6)


def test_networks_that_differ_are_not_stacked() -> None:
    with pytest.raises(ValueError, match="one shape"):
        LstmStack([made(), made(layers=2)])
    with pytest.raises(ValueError, match="at least one"):
        LstmStack([])


COUNTS = (9, 4, 0, 7, 9)  # records of each teacher
COURSE = StackSchedule(epochs=3, batch=4, rate=0.01, seed=2)


def ignored(_: int, __: int) -> None:
    """Tell nobody."""


def records() -> tuple[Any, Any, Any]:
    windows = lesson(len(COUNTS), rows=max(COUNTS))[0]
    targets = (windows[..., 0].mean(dim=2) > 0).long()
    present = torch.arange(max(COUNTS)) < torch.tensor(COUNTS)[:, None]
    present[3] = present[3].flip(0)  # what fills up may come first
    return windows, targets, present


def started() -> LstmStack:
    torch.manual_seed(4)
    return lstm_stack.make_random_stack(len(COUNTS), CHANNELS, CLASSES, hidden=HIDDEN)


def fitted(windows: Any, targets: Any, present: Any) -> dict[str, Any]:
    stack = started()
    lstm_stack.train_stack(stack, windows, targets.where(present, -1), COURSE, progress=ignored)
    return {name: value.detach() for name, value in stack.named_parameters()}


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.usefixtures("way")
def test_a_teachers_records_leave_all_others_as_they_are_to_the_bit(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lstm_stack, "_count_parallel_networks", lambda stack: at_once)
    windows, targets, present = records()
    before = fitted(windows, targets, present)
    changed, fewer, wrong = windows.clone(), present.clone(), targets.clone()
    changed[3], fewer[3, 4:], wrong[3] = math.nan, False, 3 - targets[3]
    for data in ((changed, targets, present), (windows, targets, fewer), (windows, wrong, present)):
        after = fitted(*data)
        for name in before:
            assert torch.equal(before[name][[0, 1, 2, 4]], after[name][[0, 1, 2, 4]])
            assert not torch.equal(before[name][3], after[name][3])


@pytest.mark.usefixtures("way")
def test_a_teacher_becomes_the_same_alone_as_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, targets, present = records()
    with monkeypatch.context() as patch:
        patch.setattr(lstm_stack, "_count_parallel_networks", len)
        among = fitted(windows, targets, present)
    for place, count in enumerate(COUNTS):
        alone, its = LstmStack([started().copy_member(place)]), slice(place, place + 1)
        some = present[place] if count else slice(0, 1)
        own = (windows[its, some], targets.where(present, -1)[its, some])
        lstm_stack.train_stack(alone, *own, COURSE, progress=ignored, numbers=[place])
        for name, value in alone.named_parameters():
            assert torch.allclose(among[name][place], value[0], atol=1e-5)
            assert value.grad is None
            was = dict(started().named_parameters())[name][place]
            assert torch.equal(among[name][place], was) == (count == 0)


def test_a_plain_loop_with_torchs_own_parts_gives_the_same_network() -> None:
    windows, targets, present = records()
    found, net = fitted(windows, targets, present), started().copy_member(3)
    best = torch.optim.Adam(net.parameters(), lr=COURSE.rate)
    rng, places = np.random.default_rng((COURSE.seed, 3)), np.flatnonzero(present[3])
    for _ in range(COURSE.epochs):
        for some in torch.from_numpy(rng.permutation(places)).split(COURSE.batch):
            best.zero_grad()
            said = net(windows[3, some])
            torch.nn.functional.cross_entropy(said, targets[3, some]).backward()
            best.step()
    for name, value in net.named_parameters():
        assert torch.allclose(found[name][3], value, atol=1e-5)


def test_what_fills_up_does_not_matter() -> None:
    windows, targets, present = records()
    before = fitted(windows, targets, present)
    after = fitted(windows.where(present[..., None, None], math.nan), targets, present)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_it_learns_and_tells_rounds_that_do_not_hang_on_the_records() -> None:
    windows, targets, present = records()
    stack, told = started(), []
    course, own = replace(COURSE, epochs=40, rate=0.02), targets.where(present, -1)
    torch.set_num_threads(2)
    lstm_stack.train_stack(stack, windows, own, course, progress=lambda *step: told.append(step))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    right = stack(windows).argmax(dim=2) == targets
    assert float(right[present].float().mean()) > 0.95
    rounds = told[-1][1]
    assert rounds % 40 == 0 and told == [(done + 1, rounds) for done in range(rounds)]
    assert threads == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": torch.zeros(5, 9, LENGTH, 2)}, "windows"),
        ({"targets": torch.zeros(5, 8)}, "targets"),
        ({"targets": torch.full((5, 9), CLASSES)}, "from 0 to 3"),
        ({"numbers": [1]}, "5 numbers"),
    ],
)
def test_records_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    windows, targets, _ = records()
    given = {"windows": windows, "targets": targets} | change
    with pytest.raises((TypeError, ValueError), match=message):
        lstm_stack.train_stack(started(), **given, schedule=COURSE, progress=ignored)


@pytest.mark.parametrize("field", [{"batch": 0}, {"rate": math.nan}, {"epochs": 0}])
def test_a_schedule_that_teaches_nothing_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(field))):
        StackSchedule(**field)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@each_depth
def test_a_gpu_trains_the_same_networks_by_replaying_steps(layers: int) -> None:
    windows, targets, present = records()
    here = LstmStack([made(seed, layers) for seed in range(len(COUNTS))])
    there = LstmStack([made(seed, layers) for seed in range(len(COUNTS))]).cuda()
    for stack in (here, there):
        lstm_stack.train_stack(stack, windows, targets.where(present, -1), COURSE, progress=ignored)
    for (name, value), other in zip(here.named_parameters(), there.parameters(), strict=True):
        assert torch.allclose(value, other.cpu(), atol=1e-4), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_gradients() -> None:
    net, (inputs, wanted) = made(layers=2), lesson(rows=3)
    here = per_record(net, inputs, wanted)
    there = per_record(net.cuda(), inputs.cuda(), tuple(each.cuda() for each in wanted))
    assert all(apart(there[name].cpu(), here[name]) < 1e-5 for name in here)
