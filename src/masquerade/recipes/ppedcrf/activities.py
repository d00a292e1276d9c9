"""Whether a frozen public network still names what people do when the place is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.networks.network import network_class
from masquerade.recipes import bench, public_alone
from masquerade.recipes.ppedcrf.findings import Activities
from masquerade.recipes.ppedcrf.variants import Variant
from masquerade.recordings import Video

if TYPE_CHECKING:
    from masquerade.recipes.ppedcrf import PpedcrfTables


_AT_ONCE = 24  # recordings that a process releases
_EACH = 3  # videos of which one is tested
_SEED = 500_000  # of the noise


@dataclass(frozen=True, kw_only=True, eq=False)
class _ShownFilms:
    """Recordings as `public_alone.features` takes them."""

    activities: tuple[str, ...]
    films: Sequence[Video]

    def __getitem__(self, number: int) -> Video:
        return self.films[number]


def named(plan: PpedcrfTables, rows: Sequence[Variant], psnr: float) -> Activities:
    """By the nearest mean of raw training recordings, before and after; and of released ones.

    Who has nothing but the publication learns from released recordings.

    Args:
        plan: how many, on what device, by how many processes.
        rows: variants at their strengths.
        psnr: dB that they leave in the films of the other tables.
    """
    stage = Stage(videos=_EACH * plan.acted)
    train, test = bench.parts(stage)
    network = network_class("mvit_small")()
    features = partial(public_alone.features, network, device=plan.device)
    learned = min(len(train), plan.acted)
    tested = min(len(test), plan.acted)
    known = features(train, range(learned))
    before = _right(known, features(test, range(tested)))
    after, anew = {}, {}
    for row in rows:
        asked, shown = (
            features(_shown(plan, part, count, row), range(count))
            for part, count in ((test, tested), (train, learned))
        )
        after[row.name] = _right(known, asked)
        anew[row.name] = _right(shown, asked)
    return Activities(before=before, after=after, psnr=psnr, learned=learned, anew=anew)


def _shown(plan: PpedcrfTables, part: Any, count: int, row: Variant) -> Any:
    """The first recordings of a part, released."""
    return _ShownFilms(activities=part.activities, films=_released(plan, part, count, row))


def _right(known: public_alone.Features, asked: public_alone.Features) -> tuple[float, ...]:
    """1 for each recording that is named as it should be."""
    every = range(len(known.targets))
    return tuple(
        public_alone.nearest(known, [every], public_alone.Features(values=v, targets=t)).mean
        for v, t in zip(asked.values[:, None], asked.targets[:, None], strict=True)
    )


def _released(plan: PpedcrfTables, test: Any, count: int, row: Variant) -> list[Video]:
    parts = [range(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE)]
    if plan.jobs == 1:
        return [film for part in parts for film in _some(test, part, row)]
    calls = (joblib.delayed(_some)(test, part, row) for part in parts)
    return [film for some in bench.together(calls, jobs=plan.jobs) for film in some]


def _some(test: Any, numbers: Sequence[int], row: Variant) -> list[Video]:
    found = []
    for number in numbers:
        film = test[number]
        frames = row.released(film, _SEED + number)
        found.append(Video(frames=frames, rate_hz=film.rate_hz, activity=film.activity))
    return found


def difference(found: Activities, after: Sequence[float]) -> tuple[float, float]:
    """Points lost, and the standard error of that, over recordings."""
    lost = 100 * (np.array(found.before) - np.array(after))
    return float(lost.mean()), float(lost.std(ddof=1) / np.sqrt(len(lost)))
