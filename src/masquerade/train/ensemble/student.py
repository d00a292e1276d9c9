"""The student: learns from public windows and the labels that the noisy votes gave them.

It sees no private number, so whatever it does with the labels costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.errors import BadInput

torch = require("torch", extra="train")
Progress: TypeAlias = Callable[[int, int], None]
_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a student learns.

    Args:
        hidden: its width.
        epochs: over its labelled windows.
        rounds: of learning from windows that it labels itself.
        confidence: that it must have in a label of its own.
        batch: windows in a step.
        rate: of Adam.
        seed: public.
        device: cpu or cuda.
    """

    hidden: int = 64
    epochs: int = 40
    rounds: int = 1
    confidence: float = 0.9
    batch: int = 32
    rate: float = 3e-3
    seed: int = 0
    device: str = "cpu"


def learn(
    windows: np.ndarray,
    labels: np.ndarray,
    *,
    classes: int,
    normalisation: tuple[np.ndarray, np.ndarray],
    course: Course,
    progress: Progress,
) -> Any:
    """A network that takes windows as they were recorded.

    Args:
        windows: (N, L, C) public.
        labels: (N,) from the votes; -1 where none was asked or given.
        classes: there are.
        normalisation: mean and scale of the channels, public; they become part of the network.
        course: how.
        progress: called with rounds done and their number.

    Raises:
        BadInput: if no window has a label.
    """
    _check.shape("N", labels=labels)
    if not (labels >= 0).any():
        raise BadInput(
            "Expected labels for the student, got none: no vote was answered. Lower the threshold, "
            "or ask more."
        )
    known = labels
    net = None
    for number in range(course.rounds + 1):
        net = _fitted(windows, known, classes, normalisation, course)
        progress(number + 1, course.rounds + 1)
        if number < course.rounds:
            chance = probabilities(net, windows)
            is_sure = (labels < 0) & (chance.max(axis=1) >= course.confidence)
            known = np.where(is_sure, chance.argmax(axis=1), labels)
    return net


def probabilities(net: Any, windows: np.ndarray) -> np.ndarray:
    """(N, K) of windows as they were recorded."""
    device = next(net.parameters()).device
    net.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(windows), _BATCH):
            some = torch.from_numpy(np.ascontiguousarray(windows[start : start + _BATCH]))
            found.append(net(some.float().to(device)).softmax(dim=1).cpu().numpy())
    return np.concatenate(found)


def _fitted(
    windows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    normalisation: tuple[np.ndarray, np.ndarray],
    course: Course,
) -> Any:
    stacks = require("masquerade.nets.lstm_stack", extra="train")
    rows = np.flatnonzero(labels >= 0)
    mean, scale = normalisation
    values = ((windows[rows] - mean) / scale).astype(np.float32)
    torch.manual_seed(course.seed)
    stack = stacks.Stack(1, windows.shape[2], classes, hidden=course.hidden).to(course.device)
    stacks.fit(
        stack,
        values[None],
        labels[rows][None],
        np.ones((1, len(rows)), bool),
        epochs=course.epochs,
        batch=course.batch,
        rate=course.rate,
        seed=course.seed,
        progress=lambda done, total: None,
    )
    net = stack.member(0)
    net.mean.copy_(torch.from_numpy(np.asarray(mean, np.float32)))
    net.scale.copy_(torch.from_numpy(np.asarray(scale, np.float32)))
    return net
