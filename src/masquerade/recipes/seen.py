"""What a frozen trunk sees of videos: rows to learn from, made a few recordings at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from masquerade._torch import torch
from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks import mvit_layers
from masquerade.networks.network import Network
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.training import learner, loop
from masquerade.training.films import Films
from masquerade.training.learner import Memory
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows

# 20 frames, so that three segments of 16 differ (they begin at frames 0, 2 and 4) and yet show all
# of an activity that happens once, such as sitting down
_FRAMES = {"frames": 20, "height": 64, "width": 64}
_WORLD: dict[str, Any] = {**_FRAMES, "subjects": 84, "videos": 2_592, "correlation": 0.5}


def sized(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given."""
    missing = {name: value for name, value in _WORLD.items() if getattr(stage, name) is None}
    return replace(stage, **missing)


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemory(Collection[Video]):
    """Some recordings, in memory; what is done in them is public here.

    Args:
        films: the recordings.
        classes: the public list of what can be done.
    """

    ABOUT: ClassVar[About] = About(
        title="Part of a data set", kind=Medium.VIDEOS, licence="", home="", citation=""
    )
    films: Sequence[Video]
    classes: tuple[str, ...]

    @property
    def activities(self) -> tuple[str, ...]:
        """The list of classes."""
        return self.classes

    def check(self) -> tuple[Count, ...]:
        """Nothing was published about a part."""
        return ()

    def _find(self) -> Sequence[Labels]:
        return [Labels(name=f"recording {number}") for number in range(len(self.films))]

    def _load(self, index: int) -> Video:
        return self.films[index]


def rows_of(films: InMemory, method: Method, network: Network, trunk: Any, *, device: str) -> Rows:
    """The trunk's output, in the views and segments that a method learns from."""
    reader, memory = Films(method, network, films.activities), Memory(device=device)
    with learner.rows_of(films, reader, trunk, memory=memory) as (rows, _):
        return rows


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one recording after the other, each a unit of its own."""
    if not parts:
        raise BadInput("Expected at least one recording, got none.")
    units, segments = sum(part.units for part in parts), parts[0].slots.shape[1]
    public = [part.public for part in parts if part.public is not None]
    return Rows(
        private=torch.cat([part.private for part in parts]),
        public=torch.cat(public) if public else None,
        targets=torch.cat([part.targets for part in parts]),
        slots=np.arange(units * segments).reshape(units, segments),
    )


def middle(slots: np.ndarray, segments: int) -> np.ndarray:
    """All segments of each recording, or the one in the middle."""
    return slots if segments == slots.shape[1] else slots[:, [slots.shape[1] // 2]]


def taught(net: Any, rows: Rows, method: Method, plan: TrainingPlan, *, physical: int = 64) -> Any:
    """The part of a network that a method trains, after it has learned.

    ``physical`` units are computed at once.
    """
    _, tail = mvit_layers.split(net, method.part)
    loop.run(
        tail,
        rows,
        method,
        plan,
        noise=Noise(),
        work=loop.Workload(physical=min(physical, rows.units)),
        progress=lambda done, total: None,
    )
    return tail


def is_right(tail: Any, rows: Rows, *, tested: int = 1, batch: int = 64) -> np.ndarray:
    """(U,) whether the mean output over ``tested`` segments of a recording names its class."""
    slots = torch.from_numpy(middle(rows.slots, tested))
    wanted = rows.targets[slots[:, 0]]
    with torch.no_grad():
        parts = [
            tail(rows.private[some.flatten()]).unflatten(0, some.shape).mean(dim=1)
            for some in slots.split(batch)
        ]
    found: np.ndarray = (torch.cat(parts).argmax(dim=1) == wanted).cpu().numpy()
    return found
