"""Teach a network what people do, from the public half of Stage alone, without privacy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import delayed

from masquerade import _check
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.recipes import bench
from masquerade.recordings import Video

Progress = Callable[[int, int], None]

_PX, _FRAMES = 64, 16
_WORLD = 1_296  # films in the public half of the world whose other half plays the private data
_LEAST = 24  # two people at least, all activities
_TOGETHER = 8  # films that one process draws before it reports


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Train a network without privacy on the public half of Stage, and write its weights.

    Nobody private is read, nor even drawn: the films are those of the split "public", whose
    people are in no other. A tenth of these people is held out to see what was learned.

    Args:
        network: which one; the published ones are far too large for two cores.
        out: where the weights go, as safetensors.
        epochs: passes over the films; one takes a minute on one core, two seconds on a large GPU.
        device: where it is trained.
        videos: public films, those held out among them; above 1,296, those of further worlds.
    """

    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    out: Path = Path("weights.safetensors")
    epochs: int = 40
    device: Literal["cpu", "cuda"] = "cpu"
    videos: int = _WORLD

    def __post_init__(self) -> None:
        _check.count(epochs=self.epochs)
        if self.videos < _LEAST:
            raise ValueError(f"Expected videos >= {_LEAST}, got videos={self.videos}.")

    def run(self) -> Answer:
        """Draw, train, test, write."""
        with bench.telling() as told:
            found = pretrain(self, partial(told, self.network))
        return Answer(
            data=found,
            lines=[
                f"Learned from {found['learned']} public films of {found['people']} people, "
                f"{self.epochs} times each; nobody private was read.",
                f"Top-1 {found['top_1']:.3f} on {found['held_out']} public films of other people; "
                f"chance is {found['chance']:.3f}.",
                f"Wrote {self.out}: {found['parameters']} parameters.",
            ],
        )


def pretrain(plan: Pretrain, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Train by a plan and write the weights; what was found, by name.

    Needs torch, torchvision and safetensors beside numpy, scipy and joblib, and nothing else.
    """
    from masquerade.nets import mvit  # torch: not to list the flags
    from masquerade.recipes import without_privacy

    _refuse_impossible(plan, has_gpu=without_privacy.torch.cuda.is_available())
    without_privacy.torch.manual_seed(0)
    net = mvit.make(plan.network, classes=len(Stage().activities))
    films, targets, people = _films(plan.videos, progress)
    is_held = np.isin(people, _held_out(people))
    entrance = net.to(plan.device).register_forward_pre_hook(
        lambda _, given: (mvit.fitted(given[0] / 2 + 0.5, plan.network),)  # from -1 to 1
    )
    without_privacy.fit(
        net,
        films[~is_held],
        targets[~is_held],
        course=without_privacy.Course(epochs=plan.epochs, rate=3e-4, flips=True, shifts=4),
        progress=progress,
    )
    out = without_privacy.predict(net, films[is_held])
    entrance.remove()
    mvit.save_weights(net, plan.out)
    return {
        "network": plan.network,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "learned": int((~is_held).sum()),
        "people": len(set(people[~is_held].tolist())),
        "held_out": int(is_held.sum()),
        "top_1": without_privacy.top_1(out, targets[is_held]),
        "chance": 1 / len(Stage().activities),
        "weights": str(plan.out),
    }


def _refuse_impossible(plan: Pretrain, *, has_gpu: bool) -> None:
    if plan.device == "cuda" and not has_gpu:
        raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
    if not plan.out.parent.is_dir():
        raise ValueError(f"Expected the folder {plan.out.parent} to exist; make it first.")


def _held_out(people: np.ndarray) -> np.ndarray:
    """A tenth of the people, one at least."""
    everyone = np.unique(people)
    chosen = everyone[9::10]
    return chosen if len(chosen) else everyone[-1:]


def _worlds(videos: int) -> Iterator[tuple[Stage, int]]:
    """Public halves, and how many films of each.

    A film's place, view and motion follow from the world's seed and the film's number, so a
    larger world with the same seed would show what is private in this one; another seed does not.
    """
    for seed in range(-(-videos // _WORLD)):
        stage = Stage(
            split="public",
            seed=seed,
            frames=_FRAMES,
            height=_PX,
            width=_PX,
            subjects=84,
            videos=2 * _WORLD,
        )
        yield stage, min(_WORLD, videos - seed * _WORLD)


def _films(videos: int, progress: Progress) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Films (N, 3, T, H, W) uint8, what is done in each, and by whom."""
    films = np.empty((videos, 3, _FRAMES, _PX, _PX), np.uint8)
    targets, people = np.empty(videos, np.int64), np.empty(videos, "U16")
    done = 0
    for stage, count in _worlds(videos):
        _ = stage[0]  # the bodies are made once, before the processes start
        chunks = np.array_split(np.arange(count), -(-count // _TOGETHER))
        calls = (delayed(_drawn)(stage, chunk.tolist()) for chunk in chunks)
        for drawn in bench.together(calls, jobs=len(os.sched_getaffinity(0))):
            for frames, activity, subject in drawn:
                films[done] = np.moveaxis(frames, -1, 0)  # (3, T, H, W)
                targets[done], people[done] = activity, f"{stage.seed}/{subject}"
                done += 1
            progress(done, videos)
    return films, targets, people


def _drawn(stage: Stage, indices: list[int]) -> list[tuple[np.ndarray, int, str]]:
    found = []
    for index in indices:
        video = stage[index]
        if not isinstance(video, Video):
            raise TypeError(f"Expected a video, got {type(video).__name__}.")
        activity = stage.activities.index(str(video.activity))
        found.append((video.frames, activity, str(video.subject)))
    return found


EXAMPLE = Pretrain()
