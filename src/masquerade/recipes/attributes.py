"""What can be told of released films: the activity, and what people look like.

Networks are taught on films that were released in the same way, and are tested on films of people
whom nobody has seen. So an anonymiser is not judged by the networks that it was taught to deceive.
Who looks for attributes is told where the person is, and looks there in several frames.

Needs numpy and what mvit_small needs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.networks import unet, without_privacy
from masquerade.networks.convolutions import classifier
from masquerade.networks.picture_crops import CROP_PX, crop_person
from masquerade.recipes import minimax
from masquerade.recipes.minimax import Progress, PublicFilms
from masquerade.recipes.verdict import Runs

Redraw = Callable[[Tensor], Tensor]  # pictures (N, 3, H, W) from -1 to 1, to the same
_FRAMES = 4  # of a film, in which looks are looked for
_TOGETHER = 16  # films that are redrawn at once
_READ_PX = 64
_BATCH = 64
_WIDTHS = (32, 64, 128, 256)


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
        epochs: passes over the films, for the activity; the public network begins.
        looks_epochs: passes over the crops, for what people look like; a fresh network begins.
        seeds: runs, each in another order.
        where: cpu or cuda.
    """

    epochs: int
    looks_epochs: int
    seeds: int
    where: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedFilms:
    """Released films as those who tell look at them.

    Args:
        films: (N, 3, T, 64, 64) uint8.
        crops: (N, K, 3, 64, 64) uint8, of the one who acts, in a few frames.
        known: what is true about them.
    """

    films: np.ndarray
    crops: np.ndarray
    known: PublicFilms


def seen(films: PublicFilms, redraw: Redraw, *, where: str) -> ReleasedFilms:
    """All films, every frame redrawn by itself and rounded to bytes."""
    count, length = films.frames.shape[:2]
    some = np.linspace(0, length - 1, _FRAMES).round().astype(int)
    small = np.empty((count, 3, length, _READ_PX, _READ_PX), np.uint8)
    crops = np.empty((count, _FRAMES, 3, CROP_PX, CROP_PX), np.uint8)
    for start in range(0, count, _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        pictures = torch.from_numpy(films.frames[rows]).to(where).permute(0, 1, 4, 2, 3)
        with torch.no_grad():
            drawn = redraw(pictures.flatten(0, 1).float() / 127.5 - 1)
            drawn = unet.as_levels(drawn).float() / 127.5 - 1  # as bytes are all that is released
            size = (_READ_PX, _READ_PX)
            read = nn.functional.interpolate(
                drawn, size=size, mode="bilinear", align_corners=False, antialias=True
            ).unflatten(0, pictures.shape[:2])
            boxes = torch.from_numpy(films.boxes[rows][:, some]).to(where)
            near = drawn.unflatten(0, pictures.shape[:2])[:, some].flatten(0, 1)
            near = crop_person(near, boxes.flatten(0, 1)).unflatten(0, boxes.shape[:2])
        small[rows] = unet.as_levels(read).transpose(1, 2).cpu().numpy()
        crops[rows] = unet.as_levels(near).cpu().numpy()
    return ReleasedFilms(films=small, crops=crops, known=films)


def told(
    learned: ReleasedFilms, unseen: ReleasedFilms, study: Study, *, progress: Progress
) -> Told:
    """What is told of the unseen films by networks that learned from the others."""
    activity = [
        _activity(learned, unseen, study, seed=seed, progress=progress)
        for seed in range(study.seeds)
    ]
    looks = np.array(
        [
            _looks(learned, unseen, study, seed=seed, progress=progress)
            for seed in range(study.seeds)
        ]
    )
    tested, names = len(unseen.films), list(learned.known.attributes)
    return Told(
        activity=Runs(tuple(activity), tested=tested),
        looks={
            name: Runs(tuple(looks[:, k].tolist()), tested=tested) for k, name in enumerate(names)
        },
        guessed={
            name: float(np.bincount(unseen.known.looks[:, k]).max() / tested)
            for k, name in enumerate(names)
        },
    )


def _activity(
    learned: ReleasedFilms, unseen: ReleasedFilms, study: Study, *, seed: int, progress: Progress
) -> float:
    """Top-1 of the public network after it has seen how films are released."""
    course = without_privacy.Course(
        epochs=study.epochs, batch=_BATCH, rate=3e-4, flips=True, shifts=4, seed=seed
    )
    return without_privacy.taught_top_1(
        minimax.reader().to(study.where),
        (learned.films, learned.known.activity),
        (unseen.films, unseen.known.activity),
        course=course,
        progress=progress,
    )


def _looks(
    learned: ReleasedFilms, unseen: ReleasedFilms, study: Study, *, seed: int, progress: Progress
) -> list[float]:
    """The share of films whose attribute is told right, by attribute."""
    torch.manual_seed(seed)
    sizes = learned.known.sizes
    net = classifier(axes=2, channels=3, classes=sum(sizes), widths=_WIDTHS).to(study.where)
    without_privacy.fit(
        net,
        learned.crops.reshape(-1, *learned.crops.shape[2:]),
        learned.known.looks.repeat(_FRAMES, axis=0),
        course=without_privacy.Course(
            epochs=study.looks_epochs, batch=2 * _BATCH, rate=2e-3, flips=True, shifts=4, seed=seed
        ),
        progress=progress,
        loss=partial(_loss, sizes=sizes),
    )
    out = without_privacy.predict(net, unseen.crops.reshape(-1, *unseen.crops.shape[2:]))
    out = out.reshape(-1, _FRAMES, sum(sizes)).mean(axis=1)
    parts = np.split(out, np.cumsum(sizes)[:-1], axis=1)
    looks = unseen.known.looks
    return [without_privacy.top_1(part, looks[:, k]) for k, part in enumerate(parts)]


def _loss(out: Tensor, looks: Tensor, *, sizes: Sequence[int]) -> Tensor:
    return minimax.attribute_loss(out, looks, sizes)
