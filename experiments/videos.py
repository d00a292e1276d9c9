"""Videos as experiments see them: rows of a frozen trunk, and what public weights know alone.

Rows to learn from are made a few recordings at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from experiments.claims import Runs
from masquerade import _check
from masquerade._torch import torch
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks import mvit_layers
from masquerade.networks.network import Network
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.training import learner, loop
from masquerade.training.learner import MemorySettings
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import FilmReader, Rows

# 20 frames, so that three segments of 16 differ (they begin at frames 0, 2 and 4) and yet show all
# of an activity that happens once, such as sitting down
_FRAMES = {"frames": 20, "height": 64, "width": 64}
_WORLD: dict[str, Any] = {**_FRAMES, "subjects": 84, "videos": 2_592, "correlation": 0.5}


def size_stage(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given."""
    missing = {name: value for name, value in _WORLD.items() if getattr(stage, name) is None}
    return replace(stage, **missing)


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemory(Collection[Video]):
    """Some recordings, in memory; what is done in them is public here."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Part of a data set", kind=Medium.VIDEOS, licence="", home="", citation=""
    )
    films: Sequence[Video]  # the recordings
    classes: tuple[str, ...]  # the public list of what can be done

    @property
    def activities(self) -> tuple[str, ...]:
        """The list of classes."""
        return self.classes

    def check(self) -> tuple[CountLine, ...]:
        """Nothing was published about a part."""
        return ()

    def _find(self) -> Sequence[Labels]:
        return [Labels(name=f"recording {number}") for number in range(len(self.films))]

    def _load(self, index: int) -> Video:
        return self.films[index]


def make_rows(
    films: InMemory, method: Method, network: Network, trunk: Any, *, device: str
) -> Rows:
    """The trunk's output, in the views and segments that a method learns from."""
    reader, memory = FilmReader(method, network, films.activities), MemorySettings(device=device)
    with learner.rows_of(films, reader, trunk, memory=memory) as (rows, _):
        return rows


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Rows of one recording after the other, each a unit of its own."""
    if not parts:
        raise BadInput("Expected at least one recording, got none.")
    units, segments = sum(part.num_units for part in parts), parts[0].slots.shape[1]
    public = [part.public for part in parts if part.public is not None]
    return Rows(
        private=torch.cat([part.private for part in parts]),
        public=torch.cat(public) if public else None,
        targets=torch.cat([part.targets for part in parts]),
        slots=np.arange(units * segments).reshape(units, segments),
    )


def pick_middle(slots: np.ndarray, segments: int) -> np.ndarray:
    """All segments of each recording, or the one in the middle."""
    return slots if segments == slots.shape[1] else slots[:, [slots.shape[1] // 2]]


def train_tail(
    net: Any, rows: Rows, method: Method, plan: TrainingPlan, *, physical: int = 64
) -> Any:
    """The part of a network that a method trains, after it has learned.

    ``physical`` units are computed at once.
    """
    _, tail = mvit_layers.split_mvit(net, method.part)
    loop.run_training(
        tail,
        rows,
        method,
        plan,
        noise=Noise(),
        work=loop.Workload(physical=min(physical, rows.num_units)),
        progress=lambda done, total: None,
    )
    return tail


def find_right(tail: Any, rows: Rows, *, tested: int = 1, batch: int = 64) -> np.ndarray:
    """(U,) whether the mean output over ``tested`` segments of a recording names its class."""
    slots = torch.from_numpy(pick_middle(rows.slots, tested))
    wanted = rows.targets[slots[:, 0]]
    with torch.no_grad():
        parts = [
            tail(rows.private[some.flatten()]).unflatten(0, some.shape).mean(dim=1)
            for some in slots.split(batch)
        ]
    found: np.ndarray = (torch.cat(parts).argmax(dim=1) == wanted).cpu().numpy()
    return found


# --- what public weights know of a task before anybody private is read
#
# A handful of public examples of each activity, from another world than the task's, gives each
# class a mean in the features that the network already has; a test recording is of the class whose
# mean is nearest. Whatever a private method learns has to show beyond this.

SEED = 2_000  # of the world that the examples are from
EACH = 3  # examples of a class
_BATCH = 16  # recordings that the network sees at once
Tick = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """What a network makes of recordings before its head.

    Args:
        values: (N, C).
        targets: (N,) the number of each recording's class.
    """

    values: np.ndarray
    targets: np.ndarray


def score_public_weights(
    network: Network,
    data: Collection[Any],
    test: Collection[Any],
    seeds: int,
    *,
    each: int = EACH,
    device: str = "cpu",
    progress: Tick = lambda done, total: None,
) -> Runs:
    """Shares of test recordings that are nearest to the mean of their own class.

    Args:
        network: with its public weights; its head is not asked.
        data: public examples of the task's activities, such as `make_examples` gives.
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
    handfuls = [draw_handful(data, each=each, seed=seed) for seed in range(seeds)]
    wanted = sorted({index for some in handfuls for index in some})
    total = len(wanted) + len(test)
    shown = compute_features(network, data, wanted, device=device, progress=progress, total=total)
    asked = compute_features(
        network,
        test,
        range(len(test)),
        device=device,
        progress=lambda done, _: progress(len(wanted) + done, total),
        total=total,
    )
    places = [[wanted.index(index) for index in some] for some in handfuls]
    return match_nearest(shown, places, asked)


def make_examples(stage: Stage) -> Stage:
    """Public people who do a task's activities in a world of their own, filmed the same way."""
    return stage.select_part("public")._replace_fields(seed=SEED)


def draw_handful(data: Collection[Any], *, each: int, seed: int) -> list[int]:
    """Numbers of ``each`` recordings of every class, drawn by chance."""
    rng, found = np.random.default_rng(seed), list[int]()
    for activity in data.activities:
        own = [n for n, known in enumerate(data.labels) if known.activity == activity]
        if len(own) < each:
            raise BadInput(f"Expected {each} examples of {activity} at least, got {len(own)}.")
        found += rng.choice(own, each, replace=False).tolist()
    return found


def compute_features(
    network: Network,
    data: Collection[Any],
    numbers: Iterable[int],
    *,
    device: str = "cpu",
    progress: Tick = lambda done, total: None,
    total: int = 0,
) -> Features:
    """What the network makes of some recordings; of a long one, of the segment in its middle."""
    trunk, _ = network.split(network.make(len(data.activities), seed=0).to(device).eval(), "head")
    wanted, values, targets = list(numbers), list[np.ndarray](), list[int]()
    for start in range(0, len(wanted), _BATCH):
        films = [data[number] for number in wanted[start : start + _BATCH]]
        segments = np.stack([_cut_middle(film.frames, network.length) for film in films])
        with torch.no_grad():
            values.append(trunk(network.prepare(segments).to(device)).cpu().numpy())
        targets += [data.activities.index(str(film.activity)) for film in films]
        progress(len(targets), total or len(wanted))
    return Features(values=np.concatenate(values), targets=np.array(targets))


def match_nearest(shown: Features, handfuls: Sequence[Sequence[int]], asked: Features) -> Runs:
    """One run for each handful, given as rows of ``shown``.

    Features are centred on what is shown and brought to length 1 before and after the mean: the
    larger their cosine, the nearer.
    """
    shares = []
    for some in handfuls:
        rows, classes = list(some), np.unique(shown.targets[list(some)])
        middle = shown.values[rows].mean(axis=0)
        units = _normalise(shown.values[rows] - middle)
        means = [units[shown.targets[rows] == one].mean(axis=0) for one in classes]
        close = _normalise(asked.values - middle) @ _normalise(np.stack(means)).T  # (N, classes)
        shares.append(float(np.mean(classes[close.argmax(axis=1)] == asked.targets)))
    return Runs(tuple(shares), tested=len(asked.targets))


def _cut_middle(frames: np.ndarray, length: int) -> np.ndarray:
    begin = (len(frames) - length) // 2
    if begin < 0:
        raise BadInput(f"Expected at least {length} frames, got {len(frames)}.")
    return frames[begin : begin + length]


def _normalise(values: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(values, axis=1, keepdims=True)
    found: np.ndarray = values / np.maximum(size, np.finfo(values.dtype).tiny)
    return found
