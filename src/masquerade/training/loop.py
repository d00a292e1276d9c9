"""Runs a plan: draws, clips, sums, adds noise, steps; with checkpoints that hold no random state.

Nothing about private records leaves the loop but the weights: what it tells is the step and the
time, never a loss.

The state of a run on disk: its weights, no random state, and what makes it this very run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from masquerade import _check
from masquerade._optional import torch
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.noise import Noise
from masquerade.training import gradients, step
from masquerade.training.gradients import refuse_coupling
from masquerade.training.guide import PublicGuide
from masquerade.training.method import Method, Precision
from masquerade.training.methods import Projecting
from masquerade.training.plan import TrainingPlan, public_batch
from masquerade.training.rows import Rows, gather_rows
from masquerade.training.step import NamedTensors, PrivateSum

Optimizer: TypeAlias = "torch.optim.Optimizer"
_DIGEST_BYTES = 32  # bytes before a checkpoint's content: its SHA-256


def save_checkpoint(
    path: Path,
    weights: Mapping[str, torch.Tensor],
    best: Optimizer,
    run_id: dict[str, Any],
    done: int,
) -> None:
    """All that a run needs to go on; batches and noise are drawn anew, so no state of theirs.

    The steps after it may be run twice, with other noise: the file is as private as the recordings.
    """
    state = {
        "run": json.dumps(run_id),
        "done": done,
        "weights": {name: value.detach().cpu() for name, value in weights.items()},
        "optimiser": best.state_dict(),
    }
    stream = io.BytesIO()
    torch.save(state, stream)
    data = stream.getvalue()
    atomic.write_whole(path, hashlib.sha256(data).digest() + data, is_private=True)


def resume_checkpoint(
    path: Path | None, weights: Mapping[str, torch.Tensor], best: Optimizer, run_id: dict[str, Any]
) -> int:
    """Steps that were done; weights and optimiser are set to what they were then.

    Raises:
        BadInput: if the file is damaged, or of another run.
    """
    if path is None or not path.is_file():
        return 0
    held = path.read_bytes()
    if hashlib.sha256(held[_DIGEST_BYTES:]).digest() != held[:_DIGEST_BYTES]:
        raise BadInput(f"Expected a whole checkpoint in {path}, got a damaged one; delete it.")
    state = torch.load(io.BytesIO(held[_DIGEST_BYTES:]), weights_only=True)
    is_same = json.loads(state["run"]) == run_id
    if not is_same:
        raise BadInput(
            f"Expected the checkpoint of this very run in {path}, got another run's; delete it or "
            "choose another output."
        )
    with torch.no_grad():
        for name, value in weights.items():
            value.copy_(state["weights"][name])
    best.load_state_dict(state["optimiser"])
    return int(state["done"])


def identify_run(
    plan: TrainingPlan, method: Method, tail: torch.nn.Module, trunk: torch.nn.Module | None
) -> dict[str, Any]:
    """What makes a run this run: its plan, its method, and the network but for what is trained."""
    frozen, shapes = hashlib.sha256(), {}
    trained = {name for name, held in tail.named_parameters() if held.requires_grad}
    for name, held in tail.state_dict().items():
        shapes[name] = list(held.shape)
        if name not in trained:
            frozen.update(held.detach().cpu().contiguous().numpy().tobytes())
    for held in trunk.state_dict().values() if trunk is not None else ():
        frozen.update(held.detach().cpu().contiguous().numpy().tobytes())
    known = {"plan": asdict(plan), "method": method.name, "fields": method.encode_fields()}
    known |= {"weights": shapes, "frozen": frozen.hexdigest()}
    found: dict[str, Any] = json.loads(json.dumps(known))
    return found


_LATE_SHARE, _FALL_FACTOR = (
    0.8,
    0.1,
)  # of the steps, and of the rate after them, where it falls in a step


@dataclass(frozen=True, kw_only=True)
class Workload:
    """How a run is worked off; nothing here changes what it promises or, rounding aside, gives.

    Args:
        physical: units whose gradients are computed at once; smaller takes less memory.
        checkpoint: file that holds the state of the run, or None.
        every: steps between two checkpoints.
        precision: of the network's forward pass; bfloat16 is quicker, on a GPU. Weights stay
            float32, and so do gradients.
        name: of the run and of what it learns from; another's checkpoint is refused.
    """

    physical: int = 16
    checkpoint: Path | None = None
    every: int = 50
    precision: Precision = "float32"
    name: str = ""

    def __post_init__(self) -> None:
        _check.count(physical=self.physical, every=self.every)
        if self.precision not in get_args(Precision):
            raise ValueError(
                _check.describe_unknown("precision", self.precision, get_args(Precision))
            )


def rate_at(method: Method, number: int, steps: int) -> float:
    """The learning rate of a step: up in a line, then along a cosine, in a step, or as it is.

    Example:
        >>> from masquerade.training.methods import DpSgd
        >>> method = DpSgd(epsilon=8.0, unit="video")
        >>> rate_at(method, 0, 100), round(rate_at(method, 10, 100), 3)
        (0.005, 0.05)
    """
    rise = max(1, round(method.warmup * steps))
    if number < rise:
        return method.learning_rate * (number + 1) / rise
    if method.schedule == "constant":
        return method.learning_rate
    if method.schedule == "step":
        return method.learning_rate * (1.0 if number < _LATE_SHARE * steps else _FALL_FACTOR)
    along = (number - rise) / max(1, steps - rise)
    return method.learning_rate * 0.5 * (1 + math.cos(math.pi * along))


def run_training(
    tail: torch.nn.Module,
    rows: Rows,
    method: Method,
    plan: TrainingPlan,
    *,
    noise: Noise,
    work: Workload,
    progress: Callable[[int, int], None],
) -> None:
    """Train the tail's trainable weights in place.

    Args:
        tail: the part of a network that is trained; its other weights stay.
        rows: what it learns from.
        method: whose parts of the equation.
        plan: of these very rows.
        noise: of batches and updates.
        work: how it is worked off.
        progress: called with the steps done and their total.

    Raises:
        ValueError: if one record could move another's gradient, so that no clipping bounds it.
    """
    if plan.sampler.units != rows.num_units:
        raise ValueError(
            f"Expected a plan for {rows.num_units} units, got one for {plan.sampler.units}."
        )
    weights = {name: held for name, held in tail.named_parameters() if held.requires_grad}
    if not weights:
        raise ValueError("Expected weights to train, got a network without any.")
    if work.precision == "bfloat16" and rows.targets.device.type != "cuda":
        raise ValueError("Expected rows on a GPU for precision=bfloat16; use precision=float32.")
    check_network(tail, rows, method)
    best = _make_optimiser(method, list(weights.values()))
    run_id = {"name": work.name}
    if work.checkpoint is not None:
        run_id |= identify_run(plan, method, tail, rows.trunk)
    loss = _make_loss(tail, method, rows, precision=work.precision)
    guide = _make_guide(loss, weights, rows, method, work)
    kept = weights | (guide.checkpoint_tensors if guide else {})
    done = resume_checkpoint(work.checkpoint, kept, best, run_id)
    if guide and done:
        guide.restore_directions()
    private_sum = _private_sum(loss, weights, rows, plan, work, guide)
    one_step = partial(_compute_update, loss, weights, rows, method, plan)
    for number in range(done, plan.steps):
        if guide:
            guide.refresh_directions(number, weights)
        found = one_step(number, noise=noise, work=work, private_sum=private_sum, guide=guide)
        for group in best.param_groups:
            group["lr"] = rate_at(method, number, plan.steps)
        for name, held in weights.items():
            held.grad = found[name].to(held.dtype)
        best.step()
        progress(number + 1, plan.steps)
        if work.checkpoint is not None and (number + 1) % work.every == 0:
            save_checkpoint(work.checkpoint, kept, best, run_id, number + 1)


def check_network(tail: torch.nn.Module, rows: Rows, method: Method) -> None:
    """Refuse a network that mixes records, or has another number of classes than weights.

    It is tried on made-up rows in full float32, and torch's own generators are left as they were.
    """
    device = rows.targets.device
    shape, chance = rows.private.shape[1:], torch.Generator().manual_seed(0)
    made_up = torch.rand((2, *shape), generator=chance)
    if not rows.private.is_floating_point():
        made_up = made_up * 255
    made_up = made_up.to(rows.private.dtype).to(device)
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False),
        _full_products(),
        torch.no_grad(),
    ):
        if rows.trunk is not None:
            refuse_coupling(rows.trunk, made_up)
            made_up = rows.trunk(made_up)
        refuse_coupling(tail, made_up)
        classes = tail(made_up).shape[-1]
    if method.class_weights and len(method.class_weights) != classes:
        raise ValueError(
            f"Expected class_weights for {classes} classes, got {len(method.class_weights)}."
        )


@contextlib.contextmanager
def _full_products() -> Iterator[None]:
    """Products of float32 matrices are not shortened, whatever was chosen for training."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _compute_update(
    loss: gradients.Loss,
    weights: Mapping[str, torch.Tensor],
    rows: Rows,
    method: Method,
    plan: TrainingPlan,
    number: int,
    *,
    noise: Noise,
    work: Workload,
    private_sum: PrivateSum | None = None,
    guide: PublicGuide | None = None,
) -> NamedTensors:
    """The right-hand side of the equation at one step."""
    held = {name: value.detach() for name, value in weights.items()}
    units = plan.sampler.sample_batch(noise)
    private = public = None
    if method.HAS_PRIVATE:
        sums = private_sum or _private_sum(loss, held, rows, plan, work, guide)
        # A shared batch shows who is in it, so its size may be used; an empty one counts as one.
        among = max(1, len(units)) if method.is_batch_shared else plan.sampler.expected
        project = guide.project_mean if guide else None
        private = step.add_step_noise(
            sums.sum_cells(units), plan, noise, among=among, project=project
        )
    if method.HAS_PUBLIC and rows.public is not None:
        if not method.is_batch_shared:
            rng = np.random.default_rng((method.public_seed, 1, number))
            size = min(getattr(method, "public_batch", plan.sampler.expected), rows.num_units)
            units = public_batch(rows.num_units, size, rng=rng)
        public = _public_mean(loss, held, rows, units, work)
    weight = method.public_weight(number, plan.steps)
    return step.combine_gradients(private, public, weight=weight)


def private_sum(
    tail: torch.nn.Module,
    rows: Rows,
    method: Method,
    plan: TrainingPlan,
    weights: Mapping[str, torch.Tensor],
    work: Workload,
) -> PrivateSum:
    """What adds up the private batches of a run, by itself: to measure what it costs."""
    loss = _make_loss(tail, method, rows, precision=work.precision)
    return _private_sum(loss, weights, rows, plan, work)


def _private_sum(
    loss: gradients.Loss,
    weights: Mapping[str, torch.Tensor],
    rows: Rows,
    plan: TrainingPlan,
    work: Workload,
    guide: PublicGuide | None = None,
) -> PrivateSum:
    """What adds up private batches."""
    see, within = partial(_apply_trunk, rows, work=work), guide.clip_subspace if guide else None
    return PrivateSum(loss, weights, rows, plan, physical=work.physical, see=see, within=within)


def _make_guide(
    loss: gradients.Loss,
    weights: Mapping[str, torch.Tensor],
    rows: Rows,
    method: Method,
    work: Workload,
) -> PublicGuide | None:
    """The subspace of a run; None for methods without one."""
    if not isinstance(method, Projecting):
        return None
    if rows.guide is None:
        raise ValueError(f"Expected public records with {method.name}, got none.")
    see = partial(_apply_trunk, rows, work=work)
    return PublicGuide(loss, weights, rows.guide, method, see=see, physical=work.physical)


def _public_mean(
    loss: gradients.Loss,
    weights: Mapping[str, torch.Tensor],
    rows: Rows,
    units: np.ndarray,
    work: Workload,
) -> NamedTensors:
    if not len(units):
        return {name: torch.zeros_like(value) for name, value in weights.items()}
    inputs, *wanted = gather_rows(rows, units, is_public=True)
    inputs = _apply_trunk(rows, inputs, work=work)
    return gradients.mean_of(loss, weights, inputs, tuple(wanted), chunk=work.physical)


def _apply_trunk(rows: Rows, inputs: torch.Tensor, *, work: Workload) -> torch.Tensor:
    """What the trained part sees of inputs (B, k, ...)."""
    if rows.trunk is None:
        return inputs
    flat = inputs.flatten(0, 1)  # (B*k, ...)
    with torch.no_grad(), lower_precision(inputs.device, work.precision):
        seen = torch.cat([rows.trunk(some) for some in flat.split(work.physical)])
    back: torch.Tensor = seen.float().unflatten(0, inputs.shape[:2])
    return back


def lower_precision(device: torch.device | str, precision: Precision) -> torch.autocast:
    """A context in which networks run in that precision, on that device.

    No guarantee hangs on it: whatever a forward pass gives, gradients are clipped afterwards, in
    float64.
    """
    is_low = precision == "bfloat16"
    kind = torch.device(device).type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=is_low, cache_enabled=False)


def _make_loss(
    tail: torch.nn.Module, method: Method, rows: Rows, *, precision: Precision = "float32"
) -> gradients.Loss:
    """The loss of one unit: the mean over its rows."""
    device = rows.targets.device
    given = torch.tensor(method.class_weights or (), device=device)
    losses = getattr(tail, "losses", None) or _compute_class_loss  # of each row, by itself alone

    def compute_unit_loss(
        weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, wanted: gradients.Target
    ) -> torch.Tensor:
        targets, shares = wanted
        with lower_precision(device, precision):
            out = torch.func.functional_call(tail, dict(weights), (inputs,))
        each = losses(out.float(), targets)
        each = each * given[targets] if len(given) else each
        return (each * shares).sum()

    own = getattr(tail, "per_record", None)  # of a network that vmap cannot take apart
    if own is not None:

        def per_record(
            weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, wanted: gradients.Target
        ) -> NamedTensors:
            targets, shares = wanted
            shares = shares * given[targets] if len(given) else shares
            found: NamedTensors = own(weights, inputs, (targets, shares))
            return found

        compute_unit_loss.per_record = per_record  # type: ignore[attr-defined]
    return compute_unit_loss


def _compute_class_loss(out: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of each row where one class is right."""
    return torch.nn.functional.cross_entropy(out, targets, reduction="none")


def _make_optimiser(method: Method, weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    if method.optimiser == "adam":
        return torch.optim.Adam(weights, lr=method.learning_rate)
    if method.optimiser == "adamw":
        return torch.optim.AdamW(weights, lr=method.learning_rate)
    return torch.optim.SGD(weights, lr=method.learning_rate, momentum=method.active_momentum)
