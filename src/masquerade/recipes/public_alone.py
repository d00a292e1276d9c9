"""What public weights know of a task before anybody private is read.

A handful of public examples of each activity, from another world than the task's, gives each class
a mean in the features that the network already has; a test recording is of the class whose mean is
nearest. Whatever a private method learns has to show beyond this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks.network import Network
from masquerade.recipes.verdict import Runs

SEED = 2_000  # of the world that the examples are from
EACH = 3  # examples of a class
_TOGETHER = 16  # recordings that the network sees at once
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """What a network makes of recordings before its head.

    Args:
        values: (N, C).
        targets: (N,) the number of each recording's class.
    """

    values: np.ndarray
    targets: np.ndarray


def scores(
    network: Network,
    data: Collection[Any],
    test: Collection[Any],
    seeds: int,
    *,
    each: int = EACH,
    device: str = "cpu",
    progress: Progress = lambda done, total: None,
) -> Runs:
    """Shares of test recordings that are nearest to the mean of their own class.

    Args:
        network: with its public weights; its head is not asked.
        data: public examples of the task's activities, such as `examples` gives.
        test: recordings to name.
        seeds: draws of the handful, each one run: 0 to ``seeds`` - 1.
        each: examples of a class in a handful.
        device: where the network runs.
        progress: called with recordings seen and their total.

    Raises:
        BadInput: if the activities differ, or a class has too few examples.
    """
    if data.activities != test.activities:
        raise BadInput(
            f"Expected examples of the same activities as the test's {', '.join(test.activities)}, "
            f"got {', '.join(data.activities)}."
        )
    _check.count(seeds=seeds, each=each)
    handfuls = [handful(data, each=each, seed=seed) for seed in range(seeds)]
    wanted = sorted({index for some in handfuls for index in some})
    total = len(wanted) + len(test)
    shown = features(network, data, wanted, device=device, progress=progress, total=total)
    asked = features(
        network,
        test,
        range(len(test)),
        device=device,
        progress=lambda done, _: progress(len(wanted) + done, total),
        total=total,
    )
    places = [[wanted.index(index) for index in some] for some in handfuls]
    return nearest(shown, places, asked)


def examples(stage: Stage) -> Stage:
    """Public people who do a task's activities in a world of their own, filmed the same way."""
    return stage.part("public")._with(seed=SEED)


def handful(data: Collection[Any], *, each: int, seed: int) -> list[int]:
    """Numbers of ``each`` recordings of every class, drawn by chance."""
    rng, found = np.random.default_rng(seed), list[int]()
    for activity in data.activities:
        own = [n for n, known in enumerate(data.labels) if known.activity == activity]
        if len(own) < each:
            raise BadInput(f"Expected {each} examples of {activity} at least, got {len(own)}.")
        found += rng.choice(own, each, replace=False).tolist()
    return found


def features(
    network: Network,
    data: Collection[Any],
    numbers: Iterable[int],
    *,
    device: str = "cpu",
    progress: Progress = lambda done, total: None,
    total: int = 0,
) -> Features:
    """What the network makes of some recordings; of a long one, of the segment in its middle."""
    trunk, _ = network.split(network.make(len(data.activities), seed=0).to(device).eval(), "head")
    wanted, values, targets = list(numbers), list[np.ndarray](), list[int]()
    for start in range(0, len(wanted), _TOGETHER):
        films = [data[number] for number in wanted[start : start + _TOGETHER]]
        segments = np.stack([_middle(film.frames, network.length) for film in films])
        with torch.no_grad():
            values.append(trunk(network.prepare(segments).to(device)).cpu().numpy())
        targets += [data.activities.index(str(film.activity)) for film in films]
        progress(len(targets), total or len(wanted))
    return Features(values=np.concatenate(values), targets=np.array(targets))


def nearest(shown: Features, handfuls: Sequence[Sequence[int]], asked: Features) -> Runs:
    """One run for each handful, given as rows of ``shown``.

    Features are centred on what is shown and brought to length 1 before and after the mean: the
    larger their cosine, the nearer.
    """
    shares = []
    for some in handfuls:
        rows, classes = list(some), np.unique(shown.targets[list(some)])
        middle = shown.values[rows].mean(axis=0)
        units = _unit(shown.values[rows] - middle)
        means = [units[shown.targets[rows] == one].mean(axis=0) for one in classes]
        close = _unit(asked.values - middle) @ _unit(np.stack(means)).T  # (N, classes)
        shares.append(float(np.mean(classes[close.argmax(axis=1)] == asked.targets)))
    return Runs(tuple(shares), tested=len(asked.targets))


def _middle(frames: np.ndarray, length: int) -> np.ndarray:
    begin = (len(frames) - length) // 2
    if begin < 0:
        raise BadInput(f"Expected at least {length} frames, got {len(frames)}.")
    return frames[begin : begin + length]


def _unit(values: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(values, axis=1, keepdims=True)
    found: np.ndarray = values / np.maximum(size, np.finfo(values.dtype).tiny)
    return found
