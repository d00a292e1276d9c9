"""The student: learns from public windows and the labels that the noisy votes gave them.

It sees no private number, so whatever it does with the labels costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade._torch import nn, torch
from masquerade.errors import BadInput
from masquerade.nets import lstm_stack
from masquerade.nets.lstm import LSTM
from masquerade.train.ensemble.features import features

Progress: TypeAlias = Callable[[int, int], None]
Unlabelled: TypeAlias = Literal["forest", "self", "none"]
_BATCH = 256
_STEPS = 1500
_TREES = 300


@dataclass(frozen=True, kw_only=True)
class StudentCourse:
    """How a student learns.

    Args:
        hidden: its width.
        epochs: over its windows; fewer where that would be more than 1,500 steps.
        unlabelled: who labels the other public windows: a forest that learned the answers, the
            student itself, or none.
        confidence: that a forest, or the student, must have in such a label.
        batch: windows in a step.
        rate: of Adam.
        seed: public.
        device: cpu or cuda.
    """

    hidden: int = 64
    epochs: int = 40
    unlabelled: Unlabelled = "forest"
    confidence: float = 0.4
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
    course: StudentCourse,
    progress: Progress,
) -> LSTM:
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
    rest = np.flatnonzero(labels < 0)
    if course.unlabelled != "none" and len(rest):
        if course.unlabelled == "forest":
            chance = _by_forest(windows, labels, rest, normalisation, course)
        else:
            first = _fitted(windows, labels, classes, normalisation, course, _quiet)
            chance = probabilities(first, windows[rest])
        is_sure = chance.max(axis=1) >= course.confidence
        labels = labels.copy()
        labels[rest[is_sure]] = chance.argmax(axis=1)[is_sure]
    return _fitted(windows, labels, classes, normalisation, course, progress)


def probabilities(net: nn.Module, windows: np.ndarray) -> np.ndarray:
    """(N, K) of windows as they were recorded."""
    device = next(net.parameters()).device
    net.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(windows), _BATCH):
            some = torch.from_numpy(np.array(windows[start : start + _BATCH], np.float32))
            found.append(net(some.to(device)).softmax(dim=1).cpu().numpy())
    return np.concatenate(found)


def _by_forest(
    windows: np.ndarray,
    labels: np.ndarray,
    rest: np.ndarray,
    normalisation: tuple[np.ndarray, np.ndarray],
    course: StudentCourse,
) -> np.ndarray:
    """(R, K): the share of trees for each class; few labels teach a forest more than a network."""
    forests = require("sklearn.ensemble", extra="train")
    mean, scale = normalisation
    known = np.flatnonzero(labels >= 0)
    forest = forests.RandomForestClassifier(_TREES, random_state=course.seed)
    forest.fit(features((windows[known] - mean) / scale), labels[known])
    found = np.zeros((len(rest), int(labels.max()) + 1))
    found[:, forest.classes_] = forest.predict_proba(features((windows[rest] - mean) / scale))
    return found


def _quiet(done: int, total: int) -> None:
    """Tells nobody."""


def _fitted(
    windows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    normalisation: tuple[np.ndarray, np.ndarray],
    course: StudentCourse,
    progress: Progress,
) -> LSTM:
    rows = np.flatnonzero(labels >= 0)
    mean, scale = normalisation
    values = ((windows[rows] - mean) / scale).astype(np.float32)
    torch.manual_seed(course.seed)
    stack = lstm_stack.drawn(1, windows.shape[2], classes, hidden=course.hidden).to(course.device)
    lstm_stack.fit(
        stack,
        values[None],
        labels[rows][None],
        np.ones((1, len(rows)), bool),
        epochs=min(course.epochs, math.ceil(_STEPS * course.batch / len(rows))),
        batch=course.batch,
        rate=course.rate,
        seed=course.seed,
        progress=progress,
    )
    net = stack.member(0)
    net.mean.copy_(torch.from_numpy(np.asarray(mean, np.float32)))
    net.scale.copy_(torch.from_numpy(np.asarray(scale, np.float32)))
    return net
