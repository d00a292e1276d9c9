"""The student: learns from public windows and the labels that the noisy votes gave them.

It sees no private number, so whatever it does with the labels costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, require_extra, torch
from masquerade.errors import BadInput
from masquerade.training.ensemble import Ensemble
from masquerade.training.partition import compute_window_features

if TYPE_CHECKING:
    from masquerade.networks import lstm_stack
    from masquerade.networks import lstm_stack as lstm_gradients
else:
    lstm_gradients = lazy_module("masquerade.networks.lstm_stack", extra="train")
    lstm_stack = lazy_module("masquerade.networks.lstm_stack", extra="train")


CountCallback: TypeAlias = Callable[[int, int], None]
_WINDOWS_PER_BATCH = 256
_NUM_TREES = 300


def learn_student(
    windows: np.ndarray,
    labels: np.ndarray,
    method: Ensemble,
    *,
    classes: int,
    normalisation: tuple[np.ndarray, np.ndarray],
    device: str = "cpu",
    progress: CountCallback = lambda done, total: None,
) -> lstm_gradients.LSTM:
    """A network that takes windows as they were recorded.

    Args:
        windows: (N, L, C) public.
        labels: (N,) from the votes; -1 where none was asked or given.
        method: how; fewer epochs where they would be more steps than it has.
        classes: there are.
        normalisation: mean and scale of the channels, public; they become part of the network.
        device: cpu or cuda.
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
    schedule = lstm_stack.StackSchedule(
        hidden=method.hidden,
        epochs=method.student_epochs,
        batch=method.batch,
        rate=method.learning_rate,
        seed=method.public_seed,
        device=device,
    )
    rest, steps = np.flatnonzero(labels < 0), method.student_steps
    if method.unlabelled != "none" and len(rest):
        if method.unlabelled == "forest":
            chance = _by_forest(windows, labels, rest, normalisation, method.public_seed)
        else:
            first = _fit_network(windows, labels, classes, normalisation, schedule, steps)
            chance = predict_probabilities(first, windows[rest])
        is_sure = chance.max(axis=1) >= method.confidence
        labels = labels.copy()
        labels[rest[is_sure]] = chance.argmax(axis=1)[is_sure]
    return _fit_network(windows, labels, classes, normalisation, schedule, steps, progress)


def predict_probabilities(net: torch.nn.Module, windows: np.ndarray) -> np.ndarray:
    """(N, K) of windows as they were recorded."""
    device = next(net.parameters()).device
    net.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(windows), _WINDOWS_PER_BATCH):
            some = torch.from_numpy(
                np.array(windows[start : start + _WINDOWS_PER_BATCH], np.float32)
            )
            found.append(net(some.to(device)).softmax(dim=1).cpu().numpy())
    return np.concatenate(found)


def _by_forest(
    windows: np.ndarray,
    labels: np.ndarray,
    rest: np.ndarray,
    normalisation: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> np.ndarray:
    """(R, K): the share of trees for each class; few labels teach a forest more than a network."""
    forests = require_extra("sklearn.ensemble", extra="train")
    mean, scale = normalisation
    known = np.flatnonzero(labels >= 0)
    forest = forests.RandomForestClassifier(_NUM_TREES, random_state=seed)
    forest.fit(compute_window_features((windows[known] - mean) / scale), labels[known])
    found = np.zeros((len(rest), int(labels.max()) + 1))
    found[:, forest.classes_] = forest.predict_proba(
        compute_window_features((windows[rest] - mean) / scale)
    )
    return found


def _fit_network(
    windows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    normalisation: tuple[np.ndarray, np.ndarray],
    schedule: lstm_stack.StackSchedule,
    steps: int,
    progress: CountCallback = lambda done, total: None,
) -> lstm_gradients.LSTM:
    rows = np.flatnonzero(labels >= 0)
    mean, scale = normalisation
    values = ((windows[rows] - mean) / scale).astype(np.float32)
    most = math.ceil(steps * schedule.batch / len(rows))
    stack = lstm_stack.train_new_stack(
        values[None],
        labels[rows][None],
        replace(schedule, epochs=min(schedule.epochs, most)),
        classes=classes,
        progress=progress,
    )
    return stack.copy_member(0).with_normalisation(mean, scale)
