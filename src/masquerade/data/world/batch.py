"""Many films at once on a GPU: what is played on the processor is drawn there together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from masquerade.data.world import backdrop, backdrop_gpu, plan, takes
from masquerade.data.world.backdrop import InView
from masquerade.data.world.plan import Take, WorldPlan
from masquerade.people import bodies, gpu

_SAMPLES = 1 << 24  # of pictures that are drawn together, four to a pixel


class Ready(NamedTuple):
    """A film that needs no more than drawing; it is small enough to be sent to another process.

    Args:
        take: what it shows.
        played: how.
        view: what the camera sees of the place.
    """

    take: Take
    played: takes.Script
    view: InView


def ready(world: WorldPlan, number: int, *, kind: str) -> Ready:
    """Play video or photo ``number``."""
    take = plan.take(world, number, kind=kind)
    played = takes.script(world, take, kind=kind).shown()
    view = backdrop.in_view(played.staged_place, played.camera, played.light)
    return Ready(take, played, view)


def together(world: WorldPlan, kind: str) -> int:
    """How many films are drawn together."""
    frames, height, width = world.size(kind)
    return max(1, _SAMPLES // (4 * frames * height * width))


def films(
    played: Iterable[Ready], *, most: int, device: str
) -> Iterator[tuple[Ready, takes.StagedFilm]]:
    """Draw what is played as it comes, ``most`` at a time, in the same order."""
    coming = iter(played)
    while some := list(islice(coming, most)):
        yield from zip(some, draw(some, device=device), strict=True)


def draw(some: Sequence[Ready], *, device: str) -> list[takes.StagedFilm]:
    """Films of one size and length, drawn together on a torch device.

    They are those that `takes.shoot` gives, to a grey level.
    """
    camera, views = some[0].played.camera, [film.view for film in some]
    behind = backdrop_gpu.draw(views, camera.height, camera.width, device=device)
    scenes = [gpu.Scene(film.played.people, film.played.camera, film.played.light) for film in some]
    made = gpu.draw(bodies.model(), scenes, behind)
    return [takes.developed(film.played, one) for film, one in zip(some, made, strict=True)]
