"""Train a small network without privacy, and see what it learned; never for release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade._optional import torch

Tensor = Any  # torch.Tensor
Network = Any  # torch.nn.Module
Loss = Callable[[Tensor, Tensor], Tensor]
CountCallback = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class TrainingCourse:
    """How a network is trained.

    Args:
        epochs: passes over the records.
        batch: records in a step.
        rate: largest learning rate; it rises and falls once.
        flips: whether a record may be shown mirrored along its last axis.
        shifts: records are moved by up to this many pixels along their last two axes.
        seed: of their order and jitter.
    """

    epochs: int = 20
    batch: int = 32
    rate: float = 3e-3
    flips: bool = False
    shifts: int = 0
    seed: int = 0


def compute_cross_entropy(out: Tensor, target: Tensor) -> Tensor:
    """For one class a record."""
    return torch.nn.functional.cross_entropy(out, target, label_smoothing=0.05)


def compute_binary_loss(out: Tensor, target: Tensor) -> Tensor:
    """For several yes-or-no labels a record."""
    return torch.nn.functional.binary_cross_entropy_with_logits(out, target.float())


def train_plainly(
    net: Network,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    course: TrainingCourse,
    progress: CountCallback,
    loss: Loss = compute_cross_entropy,
) -> None:
    """Train in place, on the device where the network is.

    Args:
        net: takes a batch of inputs.
        inputs: (N, ...) uint8 or float; bytes become -1 to 1.
        targets: (N, ...).
        course: how.
        progress: called with the steps done and their total.
        loss: of the network's output and the targets.
    """
    rng = np.random.default_rng(course.seed)
    steps = -(-len(inputs) // course.batch) * course.epochs
    best = torch.optim.AdamW(net.parameters(), lr=course.rate, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(best, course.rate, total_steps=steps)
    device = next(net.parameters()).device
    net.train()
    done = 0
    for _ in range(course.epochs):
        order = rng.permutation(len(inputs))
        for start in range(0, len(order), course.batch):
            rows = np.sort(order[start : start + course.batch])
            batch = _jitter_batch(make_input_tensor(inputs[rows], device), course, rng)
            best.zero_grad()
            loss(net(batch), torch.from_numpy(targets[rows]).to(device)).backward()
            best.step()
            rates.step()
            done += 1
            progress(done, steps)
    net.eval()


def predict_outputs(net: Network, inputs: np.ndarray, *, batch: int = 64) -> np.ndarray:
    """The network's outputs, one batch after the other."""
    device = next(net.parameters()).device
    net.eval()
    with torch.no_grad():
        parts = [
            net(make_input_tensor(inputs[start : start + batch], device))
            for start in range(0, len(inputs), batch)
        ]
    found: np.ndarray = torch.cat(parts).cpu().numpy()
    return found


def make_input_tensor(values: np.ndarray, device: Any = "cpu") -> Tensor:
    """Bytes as -1 to 1; floats as they are."""
    tensor = torch.from_numpy(np.ascontiguousarray(values)).to(device)
    return tensor.float() / 127.5 - 1 if tensor.dtype == torch.uint8 else tensor.float()


def _jitter_batch(batch: Tensor, course: TrainingCourse, rng: np.random.Generator) -> Tensor:
    if course.flips:
        rows = torch.from_numpy(rng.random(len(batch)) < 0.5)
        batch[rows] = batch[rows].flip(-1)
    if course.shifts:
        moves = rng.integers(-course.shifts, course.shifts + 1, 2)
        batch = torch.roll(batch, tuple(moves.tolist()), dims=(-2, -1))
    return batch


def compute_top_1(out: np.ndarray, target: np.ndarray) -> float:
    """The share of records whose largest output is the right class."""
    return float(np.mean(out.argmax(axis=1) == target))


def measure_trained_top_1(
    net: Network,
    learned: tuple[np.ndarray, np.ndarray],
    unseen: tuple[np.ndarray, np.ndarray],
    *,
    course: TrainingCourse,
    progress: CountCallback,
) -> float:
    """Top-1 on unseen inputs and their classes, after `train_plainly` to the learned ones."""
    train_plainly(net, *learned, course=course, progress=progress)
    return compute_top_1(predict_outputs(net, unseen[0]), unseen[1])
