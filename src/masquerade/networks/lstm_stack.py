"""Many LSTMs of one shape, each with records of its own, trained together.

On a GPU all of them take a step at once, and after the first steps whole steps are replayed from a
captured graph. On processors each thread takes a few and computes on one core, network by network:
torch's own kernel for one of them is quicker there than products of many.

No network's weights depend on another's records, not even in the last bit: how the work is divided
hangs on shapes alone.

An LSTM over windows of a worn sensor, and every record's own gradient at little extra cost.

A record's gradient needs the gates' gradients and what went into them, nothing else: the loss is
taken back through time once for all records, and two products a layer give each record its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.io.devices import GraphRecorder
from masquerade.networks import lstm
from masquerade.networks.lstm import LayerTrace, backpropagate_lstm, flush_tiny_to_zero, unroll_lstm

KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer's weights, in torch's order


class LSTM(nn.Module):
    """Layers of LSTM, then classes from the mean of the hidden states over time.

    A mean learns from few windows where the last state alone does not.

    ``lstm`` is a torch.nn.LSTM and ``head`` a torch.nn.Linear, so their weights load both ways.
    ``mean`` and ``scale`` (C,) are taken off and divided by first; they are public, and so must be
    what they are set from.

    Args:
        channels: of the windows.
        classes: numbers that come out.
        hidden: size of the state.
        layers: one on top of the other.
    """

    mean: Tensor
    scale: Tensor
    rate_hz: float  # of the sensors that it was made for

    def __init__(self, channels: int, classes: int, hidden: int = 64, layers: int = 1) -> None:
        _check.count(channels=channels, classes=classes, hidden=hidden, layers=layers)
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def forward(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to logits (B, classes)."""
        logits: Tensor = self.head(self.compute_mean_state(windows))
        return logits

    def compute_mean_state(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to what the head is given (B, hidden)."""
        hidden: Tensor = self.lstm((windows - self.mean) / self.scale)[0]
        return hidden.mean(dim=1)

    def with_normalisation(self, mean: np.ndarray, scale: np.ndarray) -> LSTM:
        """The same network, which takes off and divides by these numbers of public data.

        Args:
            mean: (C,) of the channels.
            scale: (C,) > 0.
        """
        for name, given in (("mean", mean), ("scale", scale)):
            value = torch.as_tensor(given, dtype=torch.float32)
            if value.shape != self.mean.shape or not bool(torch.isfinite(value).all()):
                count = len(self.mean)
                raise ValueError(f"Expected {name} to be {count} finite numbers, got {given!r}.")
            getattr(self, name).copy_(value)
        if not bool((self.scale > 0).all()):
            raise ValueError(
                f"Expected scale > 0 for every channel, got {scale!r}; drop constant ones."
            )
        return self

    def per_record(
        self, weights: Mapping[str, Tensor], inputs: Tensor, wanted: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        """The gradient of every record's loss: tensors with one more axis in front.

        The loss of a record is the sum over its windows of share times cross-entropy.

        Args:
            weights: those that are trained, by name.
            inputs: (B, L, C), or (B, K, L, C) where a record has K windows.
            wanted: targets and shares, each (B,) or (B, K); a share may hold a class weight too.
        """
        targets, shares = (each.flatten() for each in wanted)
        owners = (len(inputs), inputs.shape[1] if inputs.dim() == 4 else 1)
        if len(targets) != owners[0] * owners[1] or targets.shape != shares.shape:
            raise ValueError(
                f"Expected a target and a share for each window of {tuple(inputs.shape)}, got "
                f"{tuple(wanted[0].shape)} and {tuple(wanted[1].shape)}."
            )
        named = (*self.named_parameters(), *weights.items())
        held = {name: value.detach() for name, value in named}
        with torch.no_grad(), flush_tiny_to_zero():
            flow = (inputs.reshape(-1, *inputs.shape[-2:]) - self.mean) / self.scale
            found = _compute_weight_gradients(flow.transpose(0, 1), held, targets, shares, owners)
        return {name: found[name] for name in weights}


def _compute_weight_gradients(
    flow: Tensor,
    held: Mapping[str, Tensor],
    targets: Tensor,
    shares: Tensor,
    owners: tuple[int, int],
) -> dict[str, Tensor]:
    """The gradients of all weights, from windows (L, B*K, C)."""
    traces: list[tuple[Tensor, LayerTrace]] = []
    while f"lstm.weight_ih_l{len(traces)}" in held:
        into, over, bias = list_layer_weights(held, len(traces))
        traces.append((flow, unroll_lstm(nn.functional.linear(flow, into, bias), over)))
        flow = traces[-1][1].hidden
    middle = flow.mean(dim=0, keepdim=True)  # over time
    said = nn.functional.linear(middle[0], held["head.weight"], held["head.bias"])
    slope = said.softmax(dim=1)
    slope[torch.arange(len(slope), device=slope.device), targets] -= 1
    slope *= shares[:, None]  # (B*K, classes)
    found = _compute_layer_gradients("head.{}", slope[None], {"weight": middle}, owners)
    given = (slope @ held["head.weight"] / len(flow)).expand_as(flow)
    for layer, (below, trace) in reversed([*enumerate(traces)]):
        into, over, _ = list_layer_weights(held, layer)
        slope = backpropagate_lstm(trace, over, given)
        first = torch.zeros_like(trace.hidden[:1])
        sides = {"weight_ih": below, "weight_hh": torch.cat([first, trace.hidden[:-1]])}
        found |= _compute_layer_gradients(f"lstm.{{}}_l{layer}", slope, sides, owners)
        given = slope @ into if layer else given
    return found


def list_layer_weights(held: Mapping[str, Tensor], layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """What an LSTM layer multiplies its input by, its own state by, and what it adds."""
    into, over, *biases = (held[f"lstm.{kind}_l{layer}"] for kind in KINDS)
    return into, over, biases[0] + biases[1]


def _compute_layer_gradients(
    name: str, slope: Tensor, sides: Mapping[str, Tensor], owners: tuple[int, int]
) -> dict[str, Tensor]:
    """Gradients of weights, from those of products (L, B*K, G) and what was multiplied."""

    def split_owners(values: Tensor) -> Tensor:  # (B, K*L, ...)
        split: Tensor = values.unflatten(1, owners)
        return split.permute(1, 2, 0, 3).flatten(1, 2)

    mine = split_owners(slope)
    found = {
        name.format(side): torch.bmm(mine.mT, split_owners(seen)) for side, seen in sides.items()
    }
    for side in sides:
        found[name.format(side.replace("weight", "bias"))] = mine.sum(dim=1)
    return found


_NUM_WARM_STEPS = 3  # steps before one is captured
_NETWORKS_PER_THREAD = (
    2  # networks a thread trains at once, so that threads wait less for each other
)


@dataclass(frozen=True, kw_only=True)
class StackSchedule:
    """How networks of a stack begin and learn.

    Args:
        hidden: size of the state.
        epochs: times that each record is seen.
        batch: records of a network in a step.
        rate: Adam's.
        seed: of first weights and orders; it may be known to all.
        device: cpu or cuda.
    """

    hidden: int = 64
    epochs: int = 30
    batch: int = 32
    rate: float = 3e-3
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        _check.count(epochs=self.epochs, batch=self.batch)
        _check.positive(rate=self.rate)


class LstmStack(nn.Module):
    """LSTMs of one shape, copied: every weight and buffer has one more axis in front."""

    mean: Tensor
    scale: Tensor

    def __init__(self, members: Sequence[LSTM]) -> None:
        if not members:
            raise ValueError("Expected at least one network to stack, got none.")
        states = [member.state_dict() for member in members]
        shapes = {tuple((name, value.shape) for name, value in state.items()) for state in states}
        if len(shapes) > 1:
            raise ValueError(f"Expected networks of one shape, got {len(shapes)} shapes.")
        super().__init__()
        first, classes = members[0].lstm, len(members[0].head.bias)
        self.sizes = (first.input_size, classes, first.hidden_size, first.num_layers)
        held = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        for part in ("lstm", "head"):
            names = [name for name in held if name.startswith(f"{part}.")]
            weights = [(name.removeprefix(f"{part}."), held[name]) for name in names]
            setattr(self, part, nn.ParameterDict(weights))
        for name in ("mean", "scale"):
            self.register_buffer(name, held[name])

    def __len__(self) -> int:
        return len(self.mean)

    def copy_member(self, teacher: int) -> LSTM:
        """A copy of one network."""
        with torch.device("meta"):
            net = LSTM(*self.sizes)
        held = {name: value[teacher].clone() for name, value in self.state_dict().items()}
        net.load_state_dict(held, assign=True)
        net.lstm.flatten_parameters()
        net.requires_grad_()
        return net

    def forward(self, windows: Tensor) -> Tensor:
        """Windows (T, B, L, C), a network's own each, to logits (T, B, classes)."""
        flow = (windows - self.mean[:, None, None]) / self.scale[:, None, None]
        held = dict(self.named_parameters())
        run = _run_one_by_one if windows.device.type == "cpu" else _run_all_at_once
        middle = run(flow, held, self.sizes[-1])
        return torch.baddbmm(held["head.bias"][:, None], middle, held["head.weight"].mT)


def make_random_stack(teachers: int, channels: int, classes: int, *, hidden: int) -> LstmStack:
    """A stack of networks with random weights, one drawn after the other."""
    return LstmStack([LSTM(channels, classes, hidden) for _ in range(teachers)])


def _run_one_by_one(flow: Tensor, held: Mapping[str, Tensor], layers: int) -> Tensor:
    """The mean hidden states (T, B, H), one network after the other."""
    sizes = (layers, flow.shape[1], held["lstm.weight_hh_l0"].shape[-1])
    names = [f"lstm.{kind}_l{layer}" for layer in range(layers) for kind in KINDS]
    weights = [held[name].unbind() for name in names]
    start = flow.new_zeros(sizes)
    found = []
    for windows, *own in zip(flow.unbind(), *weights, strict=True):
        hidden, _, _ = torch.lstm(
            windows, (start, start), own, True, layers, 0.0, True, False, True
        )  # with biases, without dropout, in training, one direction, batch first
        found.append(hidden.mean(dim=1))
    return torch.stack(found)


def _run_all_at_once(flow: Tensor, held: Mapping[str, Tensor], layers: int) -> Tensor:
    """The mean hidden states (T, B, H), all networks at each step of time."""
    flow = flow.transpose(1, 2).contiguous()  # (T, L, B, C)
    for layer in range(layers):
        flow = _StackedLayer.apply(flow, *list_layer_weights(held, layer))  # type: ignore[no-untyped-call]
    return flow.mean(dim=1)


class _StackedLayer(torch.autograd.Function):
    """One layer of every network, with its way back written out."""

    @staticmethod
    def forward(ctx: Any, flow: Tensor, into: Tensor, over: Tensor, bias: Tensor) -> Tensor:
        """(T, L, B, C) to hidden states (T, L, B, H)."""
        gates = torch.baddbmm(bias[:, None], flow.flatten(1, 2), into.mT)
        trace = lstm.unroll_lstm(gates.unflatten(1, flow.shape[1:3]), over)
        ctx.save_for_backward(flow, into, over, *trace)
        return trace.hidden

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the input, both weights and the bias."""
        flow, into, over, *trace = ctx.saved_tensors
        slopes = lstm.backpropagate_lstm(lstm.LayerTrace(*trace), over, given)  # (T, L, B, 4H)
        flat = slopes.flatten(1, 2)
        later, before = slopes[:, 1:].flatten(1, 2), trace[1][:, :-1].flatten(1, 2)
        below = torch.bmm(flat, into).view_as(flow) if ctx.needs_input_grad[0] else None
        return below, torch.bmm(flat.mT, flow.flatten(1, 2)), later.mT @ before, flat.sum(dim=1)


def train_new_stack(
    windows: np.ndarray,
    targets: np.ndarray,
    schedule: StackSchedule,
    *,
    classes: int,
    progress: Callable[[int, int], None],
    numbers: Sequence[int] | None = None,
) -> LstmStack:
    """Networks with random weights that learned from records of their own; see `train_stack`."""
    torch.manual_seed(schedule.seed)
    stack = make_random_stack(len(windows), windows.shape[3], classes, hidden=schedule.hidden)
    stack = stack.to(schedule.device)
    train_stack(stack, windows, targets, schedule, progress=progress, numbers=numbers)
    return stack


def train_stack(
    stack: LstmStack,
    windows: np.ndarray | Tensor,
    targets: np.ndarray | Tensor,
    schedule: StackSchedule,
    *,
    progress: Callable[[int, int], None],
    numbers: Sequence[int] | None = None,
) -> None:
    """Train every network on its own records, by Adam, in place, where its weights lie.

    A network goes through its records in an order that its number, the seed and how many it has
    decide, so it becomes the same alone as among others, rounding aside. Those with fewer records
    are done after fewer steps; one without any stays as it was.

    Args:
        stack: the networks.
        windows: (T, R, L, C) float32.
        targets: (T, R) classes; below 0 where the record only fills up.
        schedule: how.
        progress: called with the rounds done and their total; it learns nothing of the records.
        numbers: of the networks, where they are some of many; None counts from 0.
    """
    seen = torch.as_tensor(windows, dtype=torch.float32)
    wanted = torch.as_tensor(targets, dtype=torch.int64)
    own_numbers = range(len(stack)) if numbers is None else numbers
    _check_records(stack, seen, wanted, own_numbers)
    size = _count_parallel_networks(stack)
    parts = [slice(start, start + size) for start in range(0, len(stack), size)]
    tick = _make_ticker(progress, schedule.epochs * len(parts))

    def train_part(part: slice) -> None:
        found = [
            _sample_record_order(
                here >= 0, schedule, np.random.default_rng((schedule.seed, number))
            )
            for here, number in zip(wanted[part].cpu().numpy(), own_numbers[part], strict=True)
        ]
        some = stack  # or a copy: torch forbids that threads change parts of one tensor
        if size < len(stack):
            some = LstmStack([stack.copy_member(teacher) for teacher in range(len(stack))[part]])
        _train_members(some, (seen[part], wanted[part].clamp_min(0)), found, schedule, tick)
        if some is not stack:
            _write_members(stack, part, some)

    if stack.mean.device.type != "cpu":
        for part in parts:
            train_part(part)
        return
    with _use_one_thread_each() as threads, ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(train_part, part) for part in parts]:
            done.result()


def _count_parallel_networks(stack: LstmStack) -> int:
    """Networks that take a step together: all on a GPU, a few in each thread on processors."""
    if stack.mean.device.type != "cpu":
        return len(stack)
    return min(_NETWORKS_PER_THREAD, -(-len(stack) // torch.get_num_threads()))


def _check_records(
    stack: LstmStack, windows: Tensor, targets: Tensor, numbers: Sequence[int]
) -> None:
    channels, classes, *_ = stack.sizes
    if windows.dim() != 4 or len(windows) != len(stack) or windows.shape[-1] != channels:
        raise ValueError(
            f"Expected windows of shape ({len(stack)}, R, L, {channels}), got "
            f"{tuple(windows.shape)}."
        )
    if targets.shape != windows.shape[:2]:
        raise ValueError(
            f"Expected targets of shape {tuple(windows.shape[:2])}, got {tuple(targets.shape)}."
        )
    if bool((targets >= classes).any()):
        raise ValueError(f"Expected targets from 0 to {classes - 1} where a record is present.")
    if len(numbers) != len(stack):
        raise ValueError(f"Expected {len(stack)} numbers, got {len(numbers)}.")


def _make_ticker(progress: Callable[[int, int], None], total: int) -> Callable[[], None]:
    lock, done = threading.Lock(), 0

    def count_step() -> None:
        nonlocal done
        with lock:
            done += 1
            progress(done, total)

    return count_step


@contextmanager
def _use_one_thread_each() -> Iterator[int]:
    """As many threads as torch has, each of which computes on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _sample_record_order(
    present: np.ndarray, schedule: StackSchedule, rng: np.random.Generator
) -> np.ndarray:
    """(steps, batch): places of a network's records; -1 where the last batch has fewer."""
    places, batch = np.flatnonzero(present), schedule.batch
    steps = -(-len(places) // batch)
    found = np.full((schedule.epochs, steps * batch), -1)
    for epoch in found:
        epoch[: len(places)] = rng.permutation(places)
    return found.reshape(schedule.epochs * steps, batch)


def _write_members(stack: LstmStack, part: slice, some: LstmStack) -> None:
    with torch.no_grad():
        for held, new in zip(stack.parameters(), some.parameters(), strict=True):
            held[part] = new


def _train_members(
    stack: LstmStack,
    records: tuple[Tensor, Tensor],
    orders: Sequence[np.ndarray],
    schedule: StackSchedule,
    tick: Callable[[], None],
) -> None:
    """Train all networks of the stack together; each stands still once its own order ends."""
    device = stack.mean.device
    ends = [len(order) for order in orders]
    table = np.full((max(ends), len(orders), schedule.batch), -1)
    for teacher, order in enumerate(orders):
        table[: len(order), teacher] = order
    step = _TrainingStep(stack, records[0].to(device), records[1].to(device), schedule)
    rows, every = torch.from_numpy(table).to(device), max(ends) // schedule.epochs
    kept = {t: _list_weights(stack, t) for t, end in enumerate(ends) if not end}
    with lstm.flush_tiny_to_zero():
        for number, row in enumerate(rows, 1):
            step.take_step(row)
            if number < len(rows):
                kept |= {t: _list_weights(stack, t) for t, end in enumerate(ends) if end == number}
            if number % every == 0:
                tick()
    stack.zero_grad()  # what is left of them is the graph's
    with torch.no_grad():
        for teacher, weights in kept.items():
            for held, value in zip(stack.parameters(), weights, strict=True):
                held[teacher] = value
    for _ in range(0 if every else schedule.epochs):  # nobody had a record
        tick()


def _list_weights(stack: LstmStack, teacher: int) -> list[Tensor]:
    return [held[teacher].detach().clone() for held in stack.parameters()]


class _TrainingStep:
    """A step of Adam for every network; on a GPU it is captured and replayed."""

    def __init__(
        self, stack: LstmStack, windows: Tensor, targets: Tensor, schedule: StackSchedule
    ) -> None:
        self.stack, self.windows, self.targets = stack, windows, targets
        self.is_gpu = windows.device.type == "cuda"
        self.best = torch.optim.Adam(
            stack.parameters(), lr=schedule.rate, fused=True, capturable=self.is_gpu
        )
        size = (len(stack), schedule.batch)
        self.places = torch.zeros(size, dtype=torch.int64, device=windows.device)
        self.teachers = torch.arange(len(stack), device=windows.device)[:, None]
        self.taken = 0
        self.replay: Callable[[], None] | None = None

    def take_step(self, places: Tensor) -> None:
        """One step on some records (T, B) of each network; -1 is none."""
        self.places.copy_(places)
        self.taken += 1
        if self.is_gpu and self.taken == _NUM_WARM_STEPS + 1:
            self.replay, _ = GraphRecorder(self.windows.device).record_graph(self._compute_step)
        if self.replay is None:
            self._compute_step()
        else:
            self.replay()

    def _compute_step(self) -> None:
        is_real = self.places >= 0
        own = self.places.where(is_real, self.places[:, :1]).clamp_min(0)
        said = self.stack(self.windows[self.teachers, own])
        wanted = self.targets[self.teachers, own]
        each = nn.functional.cross_entropy(said.transpose(1, 2), wanted, reduction="none")
        shares = is_real / is_real.sum(dim=1, keepdim=True).clamp_min(1)
        weights = list(self.stack.parameters())
        found = torch.autograd.grad((each * shares).sum(), weights)
        for held, gradient in zip(weights, found, strict=True):
            held.grad = gradient.contiguous()
        self.best.step()
