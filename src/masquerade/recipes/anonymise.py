"""Teach a network to redraw films so that people are hard to tell, from public people alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from masquerade import _check
from masquerade.datasets.stage import Stage
from masquerade.recipes import bench, pretrain
from masquerade.recordings import Video
from masquerade.result import Answer

if TYPE_CHECKING:
    from masquerade.recipes.attributes import Told
    from masquerade.recipes.minimax import Progress, PublicFilms


_SEEDS = pretrain.SEEDS[500:]  # of worlds that no task has, nor what the reader learned from
_WORLD, _SUBJECTS = 1_296, 216  # films and people of one
_PX, _FRAMES = 96, 16
_LEAST, _MOST = 48, _WORLD * len(_SEEDS)
_ATTRIBUTES = ("skin_tone", "gender", "build", "hair", "clothing", "face")
_EPOCHS, _LOOKS_EPOCHS = 2, 6
BEARABLE = {"spact": 0.4, "alf": 0.8}  # what made the weights that come along
STEPS = {"spact": 1_251, "alf": 872}


@dataclass(frozen=True, kw_only=True)
class Anonymise:
    """Train the network of the mechanism spact or alf on public people, and write its weights.

    Nobody private is read, nor even drawn: the films are of what only public people do, in Stage
    worlds that no task has. A tenth of their people is held out, to see what can be told of films
    before and after: the activity, and what people look like. Another tenth is left for choosing.

    Args:
        task: spact or alf.
        out: where the weights go, as safetensors.
        steps: of the contest between the network and those who look at what it draws. By default
            what made the weights that come along.
        bearable: how badly the activity may be read during the contest, in nats; more hides more.
            By default what made the weights that come along.
        device: where films are drawn and the network is trained.
        videos: public films, those held out among them; every 1,296 are of another world.
        runs: how often what can be told is measured, each time by other networks; 0 for never.
    """

    task: Literal["spact", "alf"] = "spact"
    out: Path = Path("weights.safetensors")
    steps: int | None = None
    bearable: float | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    videos: int = _WORLD
    runs: int = 3

    def __post_init__(self) -> None:
        if self.steps is not None:
            _check.count(steps=self.steps)
        _check.not_negative(runs=self.runs)
        if self.bearable is not None:
            _check.positive(bearable=self.bearable)
        if not _LEAST <= self.videos <= _MOST:
            raise ValueError(f"Expected videos from {_LEAST} to {_MOST}, got videos={self.videos}.")

    def run(self) -> Answer:
        """Draw, train, write, measure."""
        from masquerade._torch import torch  # not to list the flags

        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
        if not self.out.parent.is_dir():
            raise ValueError(f"Expected the folder {self.out.parent} to exist; make it first.")
        with bench.telling() as told:
            films = public_films(self.videos, self.device, partial(told, "films"))
            found = anonymise(self, films, told)
        return Answer(data=found, lines=_lines(self, found))


def anonymise(plan: Anonymise, films: PublicFilms, told: bench.Told) -> dict[str, Any]:
    """Train by a plan, write the weights, and measure; what was found, by name."""
    from masquerade.networks import unet  # torch: not to list the flags
    from masquerade.recipes import attributes, minimax

    learned = films.part(~(tenth(films.people, 8) | tenth(films.people, 9)))
    unseen = films.part(tenth(films.people, 9))
    contest = minimax.Contest(
        task=minimax.Task(plan.task),
        steps=plan.steps or STEPS[plan.task],
        bearable=plan.bearable or BEARABLE[plan.task],
    )
    net = minimax.played(contest, learned, where=plan.device, progress=partial(told, plan.task))
    unet.save(net, plan.out)
    found: dict[str, Any] = {"task": plan.task, "learned": len(learned.frames)}
    found |= {"people": len(set(learned.people.tolist())), "held_out": len(unseen.frames)}
    if plan.runs:
        study = attributes.Study(
            epochs=_EPOCHS, looks_epochs=_LOOKS_EPOCHS, seeds=plan.runs, where=plan.device
        )
        for name, redraw in (("before", _as_it_is), ("after", net.to(plan.device))):
            taught, asked = (
                attributes.seen(part, redraw, where=plan.device) for part in (learned, unseen)
            )
            measured = attributes.told(taught, asked, study, progress=partial(told, f"told {name}"))
            found[name] = plain(measured)
    return found


def _as_it_is(pictures: Any) -> Any:
    return pictures


def tenth(people: np.ndarray, number: int) -> np.ndarray:
    """(N,) whether a film's person is in one of ten groups of people, 0 to 9."""
    return np.isin(people, np.unique(people)[number::10])


def public_films(videos: int, device: str, progress: Progress) -> PublicFilms:
    """Films of what only public people do, of as many people as there are."""
    from masquerade.networks.picture_crops import (
        person_square as around,  # torch: not to list the flags
    )
    from masquerade.recipes.minimax import PublicFilms

    frames = np.empty((videos, _FRAMES, _PX, _PX, 3), np.uint8)
    boxes = np.empty((videos, _FRAMES, 3), np.float32)
    known: list[Mapping[str, Any]] = []
    for number, (seed, video) in enumerate(_drawn(videos, device)):
        frames[number], boxes[number] = video.frames, around(np.asarray(video.joints), _PX)
        person = f"{seed}/{video.subject}"
        known.append({**video.attributes, "activity": video.activity, "person": person})
        progress(number + 1, videos)
    activities = Stage(repertoire="public").activities
    choices = {name: tuple(sorted({said[name] for said in known})) for name in _ATTRIBUTES}
    looks = [[choices[name].index(said[name]) for name in _ATTRIBUTES] for said in known]
    return PublicFilms(
        frames=frames,
        activity=np.array([activities.index(said["activity"]) for said in known]),
        looks=np.array(looks),
        attributes=choices,
        people=np.array([said["person"] for said in known]),
        boxes=boxes,
    )


def _drawn(videos: int, device: str) -> Iterator[tuple[int, Video]]:
    """Films with the seeds of their worlds."""
    for number, seed in enumerate(_SEEDS[: -(-videos // _WORLD)]):
        stage = Stage(
            split="public",
            repertoire="public",
            seed=seed,
            frames=_FRAMES,
            height=_PX,
            width=_PX,
            subjects=_SUBJECTS,
            videos=_WORLD,
        )
        for video in stage.drawn(min(_WORLD, videos - number * _WORLD), device=device):
            yield seed, video


def plain(told: Told) -> dict[str, Any]:
    """What was told, for a file."""
    return {
        "activity": list(told.activity.shares),
        "looks": {name: list(runs.shares) for name, runs in told.looks.items()},
        "guessed": told.guessed,
        "tested": told.activity.tested,
    }


def _lines(plan: Anonymise, found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Learned from {found['learned']} public films of {found['people']} people; nobody "
        "private was read.",
        f"Wrote {plan.out}.",
    ]
    if plan.runs:
        from masquerade.recipes.verdict import Runs

        rows = [("activity", [found[at]["activity"] for at in ("before", "after")], "")]
        for name, guessed in found["after"]["guessed"].items():
            shares = [found[at]["looks"][name] for at in ("before", "after")]
            rows.append((name, shares, f"{100 * guessed:.1f}"))
        tested = found["held_out"]
        cells = [
            (name, *(str(Runs(some, tested=tested)) for some in shares), guessed)
            for name, shares, guessed in rows
        ]
        lines.append(bench.table(("told of unseen people, %", "before", "after", "guessed"), cells))
    return lines


EXAMPLE = Anonymise()
