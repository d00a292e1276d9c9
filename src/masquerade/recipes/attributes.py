"""What can be told of released films: the activity, and what people look like.

Networks are taught from scratch on films that were released in the same way, and are tested on
films of people whom nobody has seen. So an anonymiser is not judged by the networks that it was
taught to deceive.

Needs numpy and torch and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.nets.conv import classifier
from masquerade.recipes import without_privacy
from masquerade.recipes.minimax import Progress, PublicFilms, attribute_loss
from masquerade.recipes.verdict import Runs

Release = Callable[[np.ndarray], np.ndarray]  # one frame (H, W, 3) to another
_MORE = 2  # frames of a film from which looks are learned


@dataclass(frozen=True, kw_only=True)
class Told:
    """Shares of right answers on unseen people, one a run.

    Args:
        activity: what is done.
        looks: by attribute, what people look like.
        guessed: by attribute, what the commonest answer would get.
    """

    activity: Runs
    looks: dict[str, Runs]
    guessed: dict[str, float]

    @property
    def mean_looks(self) -> Runs:
        """Over attributes."""
        every = np.array([runs.shares for runs in self.looks.values()])
        tested = next(iter(self.looks.values())).tested
        return Runs(tuple(every.mean(axis=0).tolist()), tested=tested)


@dataclass(frozen=True, kw_only=True)
class Study:
    """How the networks that tell are taught.

    Args:
        epochs: passes over the films.
        seeds: runs, each with other first weights.
        where: cpu or cuda.
    """

    epochs: int
    seeds: int
    where: str


def released(films: PublicFilms, release: Release) -> np.ndarray:
    """(N, T, H, W, 3) uint8: every frame by itself."""
    out = np.empty_like(films.frames)
    for film, into in zip(films.frames, out, strict=True):
        for number, frame in enumerate(film):
            into[number] = release(frame)
    return out


def told(learned: PublicFilms, unseen: PublicFilms, study: Study, *, progress: Progress) -> Told:
    """What is told of the unseen films by networks that learned from the others."""
    activity, looks = [], []
    for seed in range(study.seeds):
        activity.append(_activity(learned, unseen, study, seed=seed, progress=progress))
        looks.append(_looks(learned, unseen, study, seed=seed, progress=progress))
    tested = len(unseen.frames)
    shares = np.array(looks)  # (seeds, A)
    return Told(
        activity=Runs(tuple(activity), tested=tested),
        looks={
            name: Runs(tuple(shares[:, k].tolist()), tested=tested)
            for k, name in enumerate(learned.attributes)
        },
        guessed={
            name: float(np.bincount(unseen.looks[:, k]).max() / tested)
            for k, name in enumerate(learned.attributes)
        },
    )


def _activity(
    learned: PublicFilms, unseen: PublicFilms, study: Study, *, seed: int, progress: Progress
) -> float:
    torch.manual_seed(seed)
    classes = int(learned.activity.max()) + 1
    net = classifier(axes=3, channels=3, classes=classes).to(study.where)
    return without_privacy.taught_top_1(
        net,
        (np.moveaxis(learned.frames, -1, 1), learned.activity),
        (np.moveaxis(unseen.frames, -1, 1), unseen.activity),
        course=_course(study.epochs, seed),
        progress=progress,
    )


def _looks(
    learned: PublicFilms, unseen: PublicFilms, study: Study, *, seed: int, progress: Progress
) -> list[float]:
    """The share of films whose attribute is told right, by attribute."""
    torch.manual_seed(seed)
    sizes = learned.sizes
    net = classifier(axes=2, channels=3, classes=sum(sizes)).to(study.where)
    some = np.linspace(0, learned.frames.shape[1] - 1, _MORE).round().astype(int)
    frames = np.moveaxis(learned.frames[:, some].reshape(-1, *learned.frames.shape[2:]), -1, 1)
    without_privacy.fit(
        net,
        frames,
        learned.looks.repeat(_MORE, axis=0),
        course=_course(2 * study.epochs, seed),
        progress=progress,
        loss=partial(_loss, sizes=sizes),
    )
    out = np.mean([_predicted(net, unseen, number) for number in some], axis=0)
    parts = np.split(out, np.cumsum(sizes)[:-1], axis=1)
    return [without_privacy.top_1(part, unseen.looks[:, k]) for k, part in enumerate(parts)]


def _loss(out: Tensor, looks: Tensor, *, sizes: Sequence[int]) -> Tensor:
    return attribute_loss(out, looks, sizes)


def _predicted(net: torch.nn.Module, films: PublicFilms, number: int) -> np.ndarray:
    return without_privacy.predict(net, np.moveaxis(films.frames[:, number], -1, 1))


def _course(epochs: int, seed: int) -> without_privacy.Course:
    return without_privacy.Course(epochs=epochs, rate=2e-3, flips=True, shifts=4, seed=seed)
