"""Teach a network to redraw films so that people are hard to tell, from public people alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import delayed

from masquerade import _check
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.recipes import bench
from masquerade.recordings import Video

if TYPE_CHECKING:
    from masquerade.recipes.attributes import Told
    from masquerade.recipes.minimax import Progress, PublicFilms

_SEED = 1000  # of a world that no experiment uses
_SUBJECTS, _PX, _FRAMES, _RATE_HZ = 480, 96, 8, 6.0
_LEAST = 48
_BATCH = 32  # films
_TOGETHER = 8  # films that one process draws before it reports
_ATTRIBUTES = ("skin_tone", "gender", "build", "hair", "clothing", "face")
_TASKS = {"spact": 1.0, "alf": 3.0}  # the weight of the watcher beside the reader


@dataclass(frozen=True, kw_only=True)
class Anonymise:
    """Train the network of the mechanism spact or alf on public people, and write its weights.

    Nobody private is read, nor even drawn: the films are the public half of a Stage world that no
    experiment uses. A tenth of its people is held out, to see what can be told of films before and
    after: the activity, and what people look like.

    Args:
        task: spact or alf.
        out: where the weights go, as safetensors.
        steps: of the contest between the network and those who look at what it draws.
        device: where it is trained.
        videos: public films, those held out among them.
        runs: how often what can be told is measured, each time by other networks; 0 for never.
    """

    task: Literal["spact", "alf"] = "spact"
    out: Path = Path("weights.safetensors")
    steps: int = 2_000
    device: Literal["cpu", "cuda"] = "cpu"
    videos: int = 2_000
    runs: int = 3

    def __post_init__(self) -> None:
        _check.count(steps=self.steps)
        _check.not_negative(runs=self.runs)
        if self.videos < _LEAST:
            raise ValueError(f"Expected videos >= {_LEAST}, got videos={self.videos}.")

    def run(self) -> Answer:
        """Draw, train, write, measure."""
        from masquerade._torch import torch  # not to list the flags

        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
        if not self.out.parent.is_dir():
            raise ValueError(f"Expected the folder {self.out.parent} to exist; make it first.")
        with bench.telling() as told:
            films = public_films(self.videos, partial(told, "films"))
            found = anonymise(self, films, told)
        return Answer(data=found, lines=_lines(self, found))


def anonymise(plan: Anonymise, films: PublicFilms, told: bench.Told) -> dict[str, Any]:
    """Train by a plan, write the weights, and measure; what was found, by name."""
    from masquerade.nets import unet  # torch: not to list the flags
    from masquerade.recipes import attributes, minimax

    is_held = held_out(films.people)
    learned, unseen = films.part(~is_held), films.part(is_held)
    contest = minimax.Contest(
        task=minimax.Task(plan.task), steps=plan.steps, batch=_BATCH, weight=_TASKS[plan.task]
    )
    net = minimax.played(contest, learned, where=plan.device, progress=partial(told, plan.task))
    unet.save(net, plan.out)
    found: dict[str, Any] = {"task": plan.task, "learned": len(learned.frames)}
    found |= {"people": len(set(learned.people.tolist())), "held_out": len(unseen.frames)}
    if plan.runs:
        study = attributes.Study(epochs=8, seeds=plan.runs, where=plan.device)
        release = partial(unet.redrawn, net.to(plan.device), lines=_PX)
        for name, way in (("before", np.copy), ("after", release)):
            seen, tested = (
                replace(part, frames=attributes.released(part, way)) for part in (learned, unseen)
            )
            measured = attributes.told(seen, tested, study, progress=partial(told, f"told {name}"))
            found[name] = _plain(measured)
    return found


def held_out(people: np.ndarray) -> np.ndarray:
    """(N,) whether a film's person is one of a tenth, which is never learned from."""
    everyone = np.unique(people)
    return np.isin(people, everyone[9::10] if len(everyone) > 9 else everyone[-1:])


def public_films(videos: int, progress: Progress) -> PublicFilms:
    """Films of the public half of a world that no experiment uses."""
    from masquerade.recipes.minimax import PublicFilms  # torch: not to list the flags

    stage = Stage(
        split="public",
        seed=_SEED,
        frames=_FRAMES,
        rate_hz=_RATE_HZ,
        height=_PX,
        width=_PX,
        subjects=_SUBJECTS,
        videos=2 * videos,
    )
    frames = np.empty((videos, _FRAMES, _PX, _PX, 3), np.uint8)
    known: list[Mapping[str, Any]] = []
    for number, (film, said) in enumerate(_drawn(stage)):
        frames[number] = film
        known.append(said)
        progress(number + 1, videos)
    choices = {name: tuple(sorted({said[name] for said in known})) for name in _ATTRIBUTES}
    looks = [[choices[name].index(said[name]) for name in _ATTRIBUTES] for said in known]
    return PublicFilms(
        frames=frames,
        activity=np.array([stage.activities.index(said["activity"]) for said in known]),
        looks=np.array(looks),
        attributes=choices,
        people=np.array([said["subject"] for said in known]),
    )


def _drawn(stage: Stage) -> Iterator[tuple[np.ndarray, Mapping[str, Any]]]:
    _ = stage[0]  # the bodies are made once, before the processes start
    chunks = np.array_split(np.arange(len(stage)), -(-len(stage) // _TOGETHER))
    calls = (delayed(_some)(stage, chunk.tolist()) for chunk in chunks)
    for some in bench.together(calls, jobs=len(os.sched_getaffinity(0))):
        yield from some


def _some(stage: Stage, indices: list[int]) -> list[tuple[np.ndarray, Mapping[str, Any]]]:
    found: list[tuple[np.ndarray, Mapping[str, Any]]] = []
    for index in indices:
        video = stage[index]
        if not isinstance(video, Video):
            raise TypeError(f"Expected a video, got {type(video).__name__}.")
        said = {**video.attributes, "activity": video.activity, "subject": video.subject}
        found.append((video.frames, said))
    return found


def _plain(told: Told) -> dict[str, Any]:
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
