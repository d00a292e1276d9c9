"""Teach the two networks of PPEDCRF on public places: where a place is told, and what hides it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from masquerade import _check
from masquerade.recipes import bench, place_worlds
from masquerade.result import Answer

if TYPE_CHECKING:
    from masquerade.recipes.place_teachers import Teacher


TAUGHT = ("efficientnet_lite0", "efficientnet_lite1", "alexnet")
UNMET = ("mobilenet_v2", "efficientnet_lite2", "vgg16")
_WORLD, _TESTED = place_worlds.SEEDS[0], place_worlds.SEEDS[1]
_TAKES = 3
_LEAST, _MOST = 16, 10_000
_PEOPLE = 72
_EXAM_DB = 33.0


@dataclass(frozen=True, kw_only=True)
class PlaceTraining:
    """Train one of PPEDCRF's networks on public places of Stage, and write its weights.

    Nobody private is read, nor even drawn: the places are of Stage worlds that no task has. What
    was learned is tried on other places, and by networks that were not learned from.

    Args:
        task: sensitivity (where networks look when they tell places apart) or texture (what to lay
            over pictures so that they do not).
        out: where the weights go, as safetensors.
        places: to learn from.
        tested: other places, to see what was learned.
        steps: of training.
        seconds: of training, at most; the course is then shortened.
        networks: those that are learned from.
        unmet: those that are not.
        device: where places are drawn and the network is trained.
    """

    task: Literal["sensitivity", "texture"] = "texture"
    out: Path = Path("weights.safetensors")
    places: int = 1_000
    tested: int = 96
    steps: int | None = None
    seconds: float = math.inf
    networks: tuple[str, ...] = TAUGHT
    unmet: tuple[str, ...] = UNMET
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        if self.steps is not None:
            _check.count(steps=self.steps)
        if not self.seconds > 0:
            raise ValueError(f"Expected seconds above 0, got seconds={self.seconds}.")
        for name in ("places", "tested"):
            count = getattr(self, name)
            if not _LEAST <= count <= _MOST:
                raise ValueError(f"Expected {name} from {_LEAST} to {_MOST}, got {name}={count}.")
        if not self.networks:
            raise ValueError("Expected at least one network to learn from, got none.")

    def run(self) -> Answer:
        """Draw, train, write, try."""
        from masquerade._torch import torch  # not to list the flags
        from masquerade.recipes.place_teachers import teachers

        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
        if not self.out.parent.is_dir():
            raise ValueError(f"Expected the folder {self.out.parent} to exist; make it first.")
        names = tuple(dict.fromkeys((*self.networks, *self.unmet)))
        with bench.telling() as told:
            lesson = drawn(self, place_worlds.public_people(_PEOPLE), told)
            found = train(self, teachers(names, self.device), lesson, told)
        return Answer(data=found, lines=[*found["lines"], f"Wrote {self.out}."])

    @property
    def command(self) -> str:
        """The line that makes such weights."""
        words = f"masquerade recipe place_training --task {self.task} --places {self.places}"
        words += "" if self.steps is None else f" --steps {self.steps}"
        words += "" if math.isinf(self.seconds) else f" --seconds {self.seconds:g}"
        return f"{words} --device {self.device}"


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceLesson:
    """Pictures to learn from and to try on.

    Args:
        places: (N, 3, H, W, 3) uint8, without people.
        tested: (M, 3, H, W, 3) uint8, of another world.
        people: who stand in front.
    """

    places: np.ndarray
    tested: np.ndarray
    people: place_worlds.PublicPeople = field(repr=False)


def drawn(
    plan: PlaceTraining, people: place_worlds.PublicPeople, told: bench.Told = bench.quiet
) -> PlaceLesson:
    """All pictures."""
    size = people.masks.shape[1:3]
    found = [
        place_worlds.empty_places(
            count,
            takes=_TAKES,
            seed=seed,
            size=size,
            device=plan.device,
            progress=lambda done, total: told("draw places", done, total),
        )
        for count, seed in ((plan.places, _WORLD), (plan.tested, _TESTED))
    ]
    return PlaceLesson(places=found[0], tested=found[1], people=people)


def train(
    plan: PlaceTraining,
    networks: Mapping[str, Teacher],
    lesson: PlaceLesson,
    told: bench.Told = bench.quiet,
) -> dict[str, Any]:
    """Train by a plan, write the weights, and try them; what was found, by name.

    Needs torch, numpy, scipy, joblib and safetensors, and nothing else.
    """
    work = {"sensitivity": _sensitivity, "texture": _texture}[plan.task]
    return work(plan, networks, lesson, told)


def _sensitivity(
    plan: PlaceTraining, networks: Mapping[str, Teacher], lesson: PlaceLesson, told: bench.Told
) -> dict[str, Any]:
    from masquerade.networks import place_networks as place_sensitivity
    from masquerade.recipes import place_saliency

    def looked(names: tuple[str, ...], places: np.ndarray) -> dict[str, np.ndarray]:
        chosen = {name: networks[name] for name in names if name in networks}
        galleries = {name: each.all_features(places[:, 0]) for name, each in chosen.items()}
        own = np.arange(len(places))
        return place_saliency.taught(chosen, galleries, places[:, 1], own)

    told("where networks look", 0, 1)
    maps = looked(plan.networks, lesson.places)
    course = place_saliency.SaliencyCourse(**({"steps": plan.steps} if plan.steps else {}))
    net = place_saliency.sensitivity(
        lesson.places[:, 1],
        np.mean(list(maps.values()), axis=0),
        course,
        where=plan.device,
        progress=lambda done, total: told("learn", done, total),
    )
    place_sensitivity.save_sensitivity(net, plan.out, command=plan.command)
    guessed = place_saliency.predicted(net, lesson.tested[:, 1])
    true = looked((*plan.networks, *plan.unmet), lesson.tested)
    agreed = {name: place_saliency.agreement(guessed, each) for name, each in true.items()}
    said = ", ".join(f"{name} {value:.2f}" for name, value in agreed.items())
    return {
        "task": plan.task,
        "learned": len(lesson.places),
        "tested": len(lesson.tested),
        "agreement": agreed,
        "lines": [f"Correlation with where networks look in {len(lesson.tested)} others: {said}."],
    }


def _texture(
    plan: PlaceTraining, networks: Mapping[str, Teacher], lesson: PlaceLesson, told: bench.Told
) -> dict[str, Any]:
    from masquerade.networks import place_networks as place_texture
    from masquerade.recipes import place_fooling as fooling

    told("features", 0, 1)
    fooled = {
        name: fooling.Fooled.of(
            networks[name], networks[name].all_features(lesson.places[:, 0]), lesson.places[:, 1]
        )
        for name in plan.networks
    }
    given: dict[str, Any] = {"steps": plan.steps} if plan.steps else {}
    given |= {"seconds": plan.seconds}
    course = fooling.FoolingCourse(**given)
    scenes = fooling.PublicScenes.of(lesson.places, lesson.people, plan.device)
    net = fooling.texture(
        fooled, scenes, course, progress=lambda done, total: told("learn", done, total)
    )
    place_texture.save_texture(net, plan.out, command=plan.command)
    tested = fooling.PublicScenes.of(lesson.tested, lesson.people, plan.device)
    named = {
        name: fooling.named(teacher, net, tested, lesson.tested[:, 0], psnr=_EXAM_DB)
        for name, teacher in networks.items()
    }
    said = ", ".join(
        f"{name} {one['raw']:.2f}, white noise {one['white']:.2f}, texture {one['texture']:.2f}"
        for name, one in named.items()
    )
    return {
        "task": plan.task,
        "learned": len(lesson.places),
        "tested": len(lesson.tested),
        "named": named,
        "lines": [f"Places named among {len(lesson.tested)} at {_EXAM_DB:g} dB: {said}."],
    }


EXAMPLE = PlaceTraining()
