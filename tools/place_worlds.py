"""Pictures of public places that no task has, from nearly the same spot, with public people.

Every place has several takes: the camera stands a little elsewhere and the light is another. People
are laid over the pictures, so that one knows where they are; they come from films that only public
people are in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.stage import backdrop, places
from masquerade.stage.places import StagedPlace
from masquerade.stage.plan import USUAL_ANGLE
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.solids import NUM_VIEWS
from tools.pretrain import SEEDS as WORLD_SEEDS

SIZE = (192, 320)  # as in the paper
SEEDS = WORLD_SEEDS[500:]  # of worlds that no task has
_PEOPLE = WORLD_SEEDS[-1]  # the world that people come from
_SMALLEST = 0.01  # share of the picture that somebody fills
_AT_ONCE = 16  # places
_EACH = 4  # parts for which a process is worth its start

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicPeople:
    """People cut out of films.

    Args:
        pictures: (N, H, W, 3) uint8, black around them.
        masks: (N, H, W) bool.
    """

    pictures: np.ndarray
    masks: np.ndarray

    def on(self, empty: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Somebody in each picture (N, H, W, 3), and where: (N, H, W) bool."""
        who = rng.integers(len(self.masks), size=len(empty))
        shown, mask = self.pictures[who], self.masks[who]
        is_turned = rng.random(len(empty)) < 0.5
        shown[is_turned], mask[is_turned] = shown[is_turned, :, ::-1], mask[is_turned, :, ::-1]
        return np.where(mask[..., None], shown, empty), mask


def public_people(count: int, size: tuple[int, int] = SIZE) -> PublicPeople:
    """So many, fewer where somebody is hardly to be seen."""
    stage = Stage(
        split="public",
        repertoire="public",
        seed=_PEOPLE,
        subjects=48,
        videos=4 * count,
        height=size[0],
        width=size[1],
        frames=1,
    )
    films: list[Any] = [stage[2 * number] for number in range(count)]
    found = [(film.frames[0], film.person_mask[0]) for film in films]
    seen = [(frame, mask) for frame, mask in found if mask.mean() >= _SMALLEST]
    return PublicPeople(
        pictures=np.stack([np.where(mask[..., None], frame, 0) for frame, mask in seen]),
        masks=np.stack([mask for _, mask in seen]),
    )


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    """How places are drawn.

    Args:
        takes: of each.
        seed: of the world.
        size: height and width.
    """

    takes: int
    seed: int
    size: tuple[int, int]

    def scenes(self, number: int, view: int) -> Iterator[tuple[StagedPlace, Camera, SceneLight]]:
        """What is drawn of one place."""
        place = places.make_staged_place(number, seed=self.seed)
        for take in range(self.takes):
            rng = np.random.default_rng([self.seed, number, take])
            height, width = self.size
            wide = places.place_camera(place, view, height=height, width=width, rng=rng)
            camera = replace(wide, fov_deg=wide.fov_deg * USUAL_ANGLE)
            yield place, camera, places.sample_take_light(place, rng=rng)

    def pictures(self, wanted: Sequence[tuple[int, int]]) -> np.ndarray:
        """(N x takes, H, W, 3) uint8, drawn here."""
        scenes = (scene for each in wanted for scene in self.scenes(*each))
        return np.stack([backdrop.draw_backdrop(*scene)[0] for scene in scenes])

    def views(self, wanted: Sequence[tuple[int, int]]) -> list[backdrop.InView]:
        """The same before it is drawn."""
        scenes = (scene for each in wanted for scene in self.scenes(*each))
        return [backdrop.find_quads_in_view(*scene) for scene in scenes]


def empty_places(
    count: int,
    *,
    takes: int,
    seed: int,
    size: tuple[int, int] = SIZE,
    device: str = "cpu",
    progress: Progress = lambda done, total: None,
) -> np.ndarray:
    """(N, takes, H, W, 3) uint8: places without people, each from one side.

    Args:
        count: of places.
        takes: of each.
        seed: of the world.
        size: height and width.
        device: where they are drawn.
        progress: told how far it is.
    """
    sides = np.random.default_rng(seed).integers(NUM_VIEWS, size=count).tolist()
    wanted = list(enumerate(sides))
    parts = [wanted[start : start + _AT_ONCE] for start in range(0, count, _AT_ONCE)]
    drawing = _Drawing(takes=takes, seed=seed, size=size)
    work = drawing.pictures if device == "cpu" else drawing.views
    calls = (joblib.delayed(work)(part) for part in parts)
    cores = min(len(os.sched_getaffinity(0)), -(-len(parts) // _EACH))
    made = []
    for number, some in enumerate(joblib.Parallel(n_jobs=cores, return_as="generator")(calls)):
        made.append(some if device == "cpu" else _drawn_there(some, size, device))
        progress(number + 1, len(parts))
    return np.concatenate(made).reshape(count, takes, *size, 3)


def _drawn_there(views: list[backdrop.InView], size: tuple[int, int], device: str) -> np.ndarray:
    found: np.ndarray = backdrop.draw_backdrops(views, *size, device=device)[0].cpu().numpy()
    return found
