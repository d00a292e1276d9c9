"""Teach a network to redraw films so that people are hard to tell, from public people alone.

What can be told of released films, the activity and what people look like, is measured by networks
that are taught on films that were released in the same way, and tested on films of people whom
nobody has seen. So an anonymiser is not judged by the networks that it was taught to deceive. Who
looks for attributes is told where the person is, and looks there in several frames.

    python tools/anonymise.py --task spact --out spact.safetensors --device cuda --videos 11664
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run from a checkout
from experiments.claims import Runs
from experiments.engine import Progress, show_progress
from experiments.pages import write_table
from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.datasets.stage import Stage
from masquerade.networks import small_networks, without_privacy
from masquerade.networks.picture_crops import CROP_PX, crop_person, find_person_square
from masquerade.networks.small_networks import make_classifier
from masquerade.recordings import Video
from masquerade.result import CommandResult
from tools import minimax, run_tool
from tools.minimax import PublicFilms
from tools.pretrain import SEEDS

_SEEDS = SEEDS[500:]  # of worlds that no task has, nor what the reader learned from
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

    def run(self) -> CommandResult:
        """Draw, train, write, measure."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
        if not self.out.parent.is_dir():
            raise ValueError(f"Expected the folder {self.out.parent} to exist; make it first.")
        with show_progress() as progress:
            films = public_films(self.videos, self.device, partial(progress, "films"))
            found = anonymise(self, films, progress)
        return CommandResult(data=found, lines=_lines(self, found))


def anonymise(plan: Anonymise, films: PublicFilms, progress: Progress) -> dict[str, Any]:
    """Train by a plan, write the weights, and measure; what was found, by name."""
    learned = films.part(~(tenth(films.people, 8) | tenth(films.people, 9)))
    unseen = films.part(tenth(films.people, 9))
    contest = minimax.Contest(
        task=minimax.Task(plan.task),
        steps=plan.steps or STEPS[plan.task],
        bearable=plan.bearable or BEARABLE[plan.task],
    )
    net = minimax.played(contest, learned, where=plan.device, progress=partial(progress, plan.task))
    small_networks.save_unet(net, plan.out)
    found: dict[str, Any] = {"task": plan.task, "learned": len(learned.frames)}
    found |= {"people": len(set(learned.people.tolist())), "held_out": len(unseen.frames)}
    if plan.runs:
        study = Study(
            epochs=_EPOCHS, looks_epochs=_LOOKS_EPOCHS, seeds=plan.runs, where=plan.device
        )
        for name, redraw in (("before", _as_it_is), ("after", net.to(plan.device))):
            taught, asked = (seen(part, redraw, where=plan.device) for part in (learned, unseen))
            measured = told(taught, asked, study, progress=partial(progress, f"told {name}"))
            found[name] = plain(measured)
    return found


def _as_it_is(pictures: Any) -> Any:
    return pictures


def tenth(people: np.ndarray, number: int) -> np.ndarray:
    """(N,) whether a film's person is in one of ten groups of people, 0 to 9."""
    return np.isin(people, np.unique(people)[number::10])


def public_films(videos: int, device: str, progress: minimax.Progress) -> PublicFilms:
    """Films of what only public people do, of as many people as there are."""
    frames = np.empty((videos, _FRAMES, _PX, _PX, 3), np.uint8)
    boxes = np.empty((videos, _FRAMES, 3), np.float32)
    known: list[Mapping[str, Any]] = []
    for number, (seed, video) in enumerate(_drawn(videos, device)):
        frames[number], boxes[number] = (
            video.frames,
            find_person_square(np.asarray(video.joints), _PX),
        )
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
        for video in stage.make_videos(min(_WORLD, videos - number * _WORLD), device=device):
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
        rows = [("activity", [found[at]["activity"] for at in ("before", "after")], "")]
        for name, guessed in found["after"]["guessed"].items():
            shares = [found[at]["looks"][name] for at in ("before", "after")]
            rows.append((name, shares, f"{100 * guessed:.1f}"))
        tested = found["held_out"]
        cells = [
            (name, *(str(Runs(some, tested=tested)) for some in shares), guessed)
            for name, shares, guessed in rows
        ]
        lines.append(write_table(("told of unseen people, %", "before", "after", "guessed"), cells))
    return lines


# --- what can be told

Redraw = Callable[[Tensor], Tensor]  # pictures (N, 3, H, W) from -1 to 1, to the same
_LOOKED_AT = 4  # of a film, in which looks are looked for
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
    some = np.linspace(0, length - 1, _LOOKED_AT).round().astype(int)
    small = np.empty((count, 3, length, _READ_PX, _READ_PX), np.uint8)
    crops = np.empty((count, _LOOKED_AT, 3, CROP_PX, CROP_PX), np.uint8)
    for start in range(0, count, _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        pictures = torch.from_numpy(films.frames[rows]).to(where).permute(0, 1, 4, 2, 3)
        with torch.no_grad():
            drawn = redraw(pictures.flatten(0, 1).float() / 127.5 - 1)
            drawn = (
                small_networks.convert_to_levels(drawn).float() / 127.5 - 1
            )  # as bytes are all that is released
            size = (_READ_PX, _READ_PX)
            read = nn.functional.interpolate(
                drawn, size=size, mode="bilinear", align_corners=False, antialias=True
            ).unflatten(0, pictures.shape[:2])
            boxes = torch.from_numpy(films.boxes[rows][:, some]).to(where)
            near = drawn.unflatten(0, pictures.shape[:2])[:, some].flatten(0, 1)
            near = crop_person(near, boxes.flatten(0, 1)).unflatten(0, boxes.shape[:2])
        small[rows] = small_networks.convert_to_levels(read).transpose(1, 2).cpu().numpy()
        crops[rows] = small_networks.convert_to_levels(near).cpu().numpy()
    return ReleasedFilms(films=small, crops=crops, known=films)


def told(
    learned: ReleasedFilms, unseen: ReleasedFilms, study: Study, *, progress: minimax.Progress
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
    learned: ReleasedFilms,
    unseen: ReleasedFilms,
    study: Study,
    *,
    seed: int,
    progress: minimax.Progress,
) -> float:
    """Top-1 of the public network after it has seen how films are released."""
    course = without_privacy.TrainingCourse(
        epochs=study.epochs, batch=_BATCH, rate=3e-4, flips=True, shifts=4, seed=seed
    )
    return without_privacy.measure_trained_top_1(
        minimax.reader().to(study.where),
        (learned.films, learned.known.activity),
        (unseen.films, unseen.known.activity),
        course=course,
        progress=progress,
    )


def _looks(
    learned: ReleasedFilms,
    unseen: ReleasedFilms,
    study: Study,
    *,
    seed: int,
    progress: minimax.Progress,
) -> list[float]:
    """The share of films whose attribute is told right, by attribute."""
    torch.manual_seed(seed)
    sizes = learned.known.sizes
    net = make_classifier(axes=2, channels=3, classes=sum(sizes), widths=_WIDTHS).to(study.where)
    without_privacy.train_plainly(
        net,
        learned.crops.reshape(-1, *learned.crops.shape[2:]),
        learned.known.looks.repeat(_LOOKED_AT, axis=0),
        course=without_privacy.TrainingCourse(
            epochs=study.looks_epochs, batch=2 * _BATCH, rate=2e-3, flips=True, shifts=4, seed=seed
        ),
        progress=progress,
        loss=partial(_loss, sizes=sizes),
    )
    out = without_privacy.predict_outputs(net, unseen.crops.reshape(-1, *unseen.crops.shape[2:]))
    out = out.reshape(-1, _LOOKED_AT, sum(sizes)).mean(axis=1)
    parts = np.split(out, np.cumsum(sizes)[:-1], axis=1)
    looks = unseen.known.looks
    return [without_privacy.compute_top_1(part, looks[:, k]) for k, part in enumerate(parts)]


def _loss(out: Tensor, looks: Tensor, *, sizes: Sequence[int]) -> Tensor:
    return minimax.attribute_loss(out, looks, sizes)


if __name__ == "__main__":
    run_tool(Anonymise)
