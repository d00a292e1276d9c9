"""Show recordings to a frozen trunk: as they are, or each released once, as a whole.

Segments are cut from the release.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade.io import devices
from masquerade.mechanism import Mechanism, Shape
from masquerade.networks import mvit_layers
from masquerade.noise import Noise
from masquerade.recipes import bench, seen
from masquerade.recipes.video_dprp import films as recordings
from masquerade.recipes.video_dprp.films import Kept
from masquerade.recipes.video_dprp.rows import Spec
from masquerade.recordings import Video
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.video_dprp import VideoDprpTables


@dataclass(frozen=True, kw_only=True)
class View:
    """How recordings are shown to the trunk.

    Args:
        mechanism: that releases them first, or none.
        segments: that are cut from each.
        crop_seed: of where they are cut; None spreads them evenly.
    """

    mechanism: Mechanism | None = None
    segments: int = 1
    crop_seed: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What the frozen trunk gives of recordings, released or not.

    Args:
        rows: a row a segment, one recording after the other.
        shapes: of the recordings.
        changed: share of their numbers that the release changed; empty without one.
    """

    rows: Rows
    shapes: frozenset[Shape]
    changed: tuple[float, ...]


def see(plan: VideoDprpTables, films: Kept, view: View, *, told: bench.Told = bench.quiet) -> Seen:
    """Release every recording once, and run the trunk over its segments."""
    what = "looking" if view.mechanism is None else f"releasing by {view.mechanism.name}"
    classes, found, size = films.origin.activities, [], films.size
    calls = (
        joblib.delayed(_see)(plan, [films[n] for n in range(start, end)], classes, view, start)
        for start in range(0, len(films), size)
        for end in [min(start + size, len(films))]
    )
    for part in bench.together(calls, jobs=plan.processes):
        found.append(part)
        told(what, sum(one.rows.units for one in found), len(films))
    return Seen(
        rows=seen.joined([part.rows for part in found]),
        shapes=frozenset[Shape]().union(*(part.shapes for part in found)),
        changed=tuple(share for part in found for share in part.changed),
    )


def _see(
    plan: VideoDprpTables, films: list[Video], classes: tuple[str, ...], view: View, start: int
) -> Seen:
    """The same for a few, in a process of its own; noise is live there as everywhere."""
    shown, changed = films, tuple[float, ...]()
    with devices.on(plan.device):
        if view.mechanism is not None:
            noise = Noise()
            shown = [released(film, view.mechanism, noise) for film in films]
            pairs = zip(shown, films, strict=True)
            changed = tuple(float(np.mean(new.frames != old.frames)) for new, old in pairs)
        rows = _looked_at(plan, shown, classes, view, start)
    return Seen(rows=rows, shapes=frozenset(film.frames.shape for film in films), changed=changed)


def _looked_at(
    plan: VideoDprpTables, films: list[Video], classes: tuple[str, ...], view: View, start: int
) -> Rows:
    trunk, segments = _frozen(plan, len(classes)), view.segments
    if view.crop_seed is not None:
        span = plan.begun.length * (plan.stride or 1)
        seeds = [[view.crop_seed, start + number] for number in range(len(films))]
        films = [
            part
            for film, seed in zip(films, seeds, strict=True)
            for part in recordings.cropped(
                film, count=segments, span=span, rng=np.random.default_rng(seed)
            )
        ]
        segments = 1
    method = plan.method(Spec(table=0, name="", segments=segments))
    some = seen.InMemory(films=films, classes=classes)
    rows = seen.rows_of(some, method, plan.begun, trunk, device=plan.device)
    return replace(rows, slots=rows.slots.reshape(-1, view.segments))


def released(film: Video, mechanism: Mechanism, noise: Noise) -> Video:
    """With its label, which is public here."""
    made = mechanism.apply(film, noise)
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return replace(made, activity=film.activity)


@lru_cache(maxsize=1)
def _frozen(plan: VideoDprpTables, classes: int) -> Any:
    return mvit_layers.split(copy.deepcopy(begun(plan, classes, 0)), str(plan.part))[0]


@lru_cache(maxsize=4)
def begun(plan: VideoDprpTables, classes: int, seed: int) -> Any:
    """A network as it is before it learns; to be copied."""
    return plan.begun.make(classes, seed=seed).to(plan.device)
