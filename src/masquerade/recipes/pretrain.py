"""Teach a network from what only public people of Stage do, without privacy.

The worlds are those of seeds 1000 to 1999, in which no task is: tasks are in worlds below 1000, and
what is tried out before is in worlds from 2000 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from masquerade import _check
from masquerade.datasets.stage import Stage
from masquerade.recipes import bench
from masquerade.result import Answer

Progress = Callable[[int, int], None]

_PX, _FRAMES = 64, 16
NetworkName = Literal[
    "mvit_small",
    "mvit_v1_b",
    "mvit_v2_s",
    "tiny_vit_small",
    "tiny_vit_5m",
    "tiny_vit_11m",
    "tiny_vit_21m",
]
_FOR_FILMS = ("mvit_small", "mvit_v1_b", "mvit_v2_s")
_FOR_POSE = ("tiny_vit_small", "tiny_vit_5m", "tiny_vit_11m", "tiny_vit_21m")
SEEDS = range(1_000, 2_000)  # of the worlds; no task has one of these
WORLD = 2_592  # films of one
_LEAST = 48  # two people at least, all activities
_MOST = WORLD * len(SEEDS)


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Train a network without privacy on what only public people do, and write its weights.

    The films are of Stage's public repertoire, which has none of the daily activities, in worlds
    that no task is in; nobody private is read, nor even drawn. A tenth of the people is held out
    to see what was learned.

    Args:
        task: what is learned: activity, from films, or pose, COCO's joints from photos.
        network: which one; mvit_small, or tiny_vit_small for pose, if not given. The published
            ones are far too large for two cores.
        out: where the weights go, as safetensors.
        epochs: passes over the films; mvit_small takes 45 seconds for 1,000 films on one core, so
            what is given here takes about half an hour.
        device: where films are drawn and the network is trained.
        videos: films or photos, those held out among them; every 2,592 are of another world.
        batch: films or photos in a step.
    """

    task: Literal["activity", "pose"] = "activity"
    network: NetworkName | None = None
    out: Path = Path("weights.safetensors")
    epochs: int = 40
    device: Literal["cpu", "cuda"] = "cpu"
    videos: int = WORLD // 2
    batch: int = 32

    def __post_init__(self) -> None:
        _check.count(epochs=self.epochs, batch=self.batch)
        if self.network is not None and (self.network in _FOR_POSE) != (self.task == "pose"):
            there = _FOR_POSE if self.task == "pose" else _FOR_FILMS
            raise ValueError(_check.unknown(f"network for {self.task}", self.network, there))
        if not _LEAST <= self.videos <= _MOST:
            raise ValueError(f"Expected videos from {_LEAST} to {_MOST}, got videos={self.videos}.")

    @property
    def taught(self) -> str:
        """The network that is meant."""
        usual = "tiny_vit_small" if self.task == "pose" else "mvit_small"
        return self.network or usual

    def run(self) -> Answer:
        """Draw, train, test, write."""
        with bench.telling() as told:
            if self.task == "pose":
                from masquerade.recipes import pretrain_pose  # torch: not to list the flags

                return pretrain_pose.answer(self, partial(told, self.taught))
            found = pretrain(self, partial(told, self.taught))
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
    from masquerade.networks import mvit_layers as mvit
    from masquerade.networks import without_privacy

    refuse_impossible(plan, has_gpu=without_privacy.torch.cuda.is_available())
    without_privacy.torch.manual_seed(0)
    classes = len(Stage(repertoire="public").activities)
    net = mvit.make(plan.taught, classes=classes)
    films, targets, people = _films(plan.videos, plan.device, progress)
    is_held = np.isin(people, held_out_people(people))
    entrance = net.to(plan.device).register_forward_pre_hook(
        lambda _, given: (mvit.fitted(given[0] / 2 + 0.5, plan.taught),)  # from -1 to 1
    )
    without_privacy.fit(
        net,
        films[~is_held],
        targets[~is_held],
        course=without_privacy.Course(**_course(plan)),
        progress=progress,
    )
    out = without_privacy.predict(net, films[is_held])
    entrance.remove()
    mvit.save_weights(net, plan.out)
    return {
        "network": plan.taught,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "learned": int((~is_held).sum()),
        "people": len(set(people[~is_held].tolist())),
        "held_out": int(is_held.sum()),
        "top_1": without_privacy.top_1(out, targets[is_held]),
        "chance": 1 / classes,
        "weights": str(plan.out),
    }


def _course(plan: Pretrain) -> dict[str, Any]:
    """Larger steps where more films are in one."""
    return {
        "epochs": plan.epochs,
        "batch": plan.batch,
        "rate": 3e-4 * (plan.batch / 32) ** 0.5,
        "flips": True,
        "shifts": 4,
    }


def refuse_impossible(plan: Pretrain, *, has_gpu: bool) -> None:
    """Raise before anything is drawn."""
    if plan.device == "cuda" and not has_gpu:
        raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
    if not plan.out.parent.is_dir():
        raise ValueError(f"Expected the folder {plan.out.parent} to exist; make it first.")


def held_out_people(people: np.ndarray) -> np.ndarray:
    """A tenth of the people, one at least."""
    everyone = np.unique(people)
    chosen = everyone[9::10]
    return chosen if len(chosen) else everyone[-1:]


def _worlds(videos: int) -> Iterator[tuple[Stage, int]]:
    """Worlds that no task is in, and how many films of each."""
    for number, seed in enumerate(SEEDS[: -(-videos // WORLD)]):
        stage = Stage(
            split="public",
            repertoire="public",
            seed=seed,
            frames=_FRAMES,
            height=_PX,
            width=_PX,
            subjects=84,
            videos=WORLD,
        )
        yield stage, min(WORLD, videos - number * WORLD)


def _films(
    videos: int, device: str, progress: Progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Films (N, 3, T, H, W) uint8, what is done in each, and by whom."""
    films = np.empty((videos, 3, _FRAMES, _PX, _PX), np.uint8)
    targets, people = np.empty(videos, np.int64), np.empty(videos, "U16")
    done = 0
    for stage, count in _worlds(videos):
        for video in stage.drawn(count, device=device):
            films[done] = np.moveaxis(video.frames, -1, 0)  # (3, T, H, W)
            targets[done] = stage.activities.index(str(video.activity))
            people[done] = f"{stage.seed}/{video.subject}"
            done += 1
            progress(done, videos)
    return films, targets, people


EXAMPLE = Pretrain()
