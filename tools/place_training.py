"""Teach the two networks of PPEDCRF on public places: where a place is told, and what hides it.

Two things are asked of a texture. Who compares a released picture with raw ones shall find another
place liker; and who has learned from released pictures shall find little in them that stays the
same from one release of a place to the next.

    python tools/place_training.py --task texture --places 1000 --seconds 260 --device cuda
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run from a checkout
from experiments.engine import Progress, hide_progress, show_progress
from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.networks import place_networks
from masquerade.networks.place_networks import PlaceTexture, list_code_shapes, standardise_fields
from masquerade.result import CommandResult
from tools import place_teachers, place_worlds, run_tool
from tools.place_teachers import Teacher, margins

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

    def run(self) -> CommandResult:
        """Draw, train, write, try."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
        if not self.out.parent.is_dir():
            raise ValueError(f"Expected the folder {self.out.parent} to exist; make it first.")
        names = tuple(dict.fromkeys((*self.networks, *self.unmet)))
        with show_progress() as progress:
            lesson = draw_lesson(self, place_worlds.public_people(_PEOPLE), progress)
            found = train(self, place_teachers.teachers(names, self.device), lesson, progress)
        return CommandResult(data=found, lines=[*found["lines"], f"Wrote {self.out}."])

    @property
    def command(self) -> str:
        """The line that makes such weights."""
        words = f"python tools/place_training.py --task {self.task} --places {self.places}"
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


def draw_lesson(
    plan: PlaceTraining, people: place_worlds.PublicPeople, progress: Progress = hide_progress
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
            progress=lambda done, total: progress("draw places", done, total),
        )
        for count, seed in ((plan.places, _WORLD), (plan.tested, _TESTED))
    ]
    return PlaceLesson(places=found[0], tested=found[1], people=people)


def train(
    plan: PlaceTraining,
    networks: Mapping[str, Teacher],
    lesson: PlaceLesson,
    progress: Progress = hide_progress,
) -> dict[str, Any]:
    """Train by a plan, write the weights, and try them; what was found, by name.

    Needs torch, numpy, scipy, joblib and safetensors, and nothing else.
    """
    work = {"sensitivity": _sensitivity, "texture": _texture}[plan.task]
    return work(plan, networks, lesson, progress)


def _sensitivity(
    plan: PlaceTraining, networks: Mapping[str, Teacher], lesson: PlaceLesson, progress: Progress
) -> dict[str, Any]:
    def looked(names: tuple[str, ...], places: np.ndarray) -> dict[str, np.ndarray]:
        chosen = {name: networks[name] for name in names if name in networks}
        galleries = {name: each.all_features(places[:, 0]) for name, each in chosen.items()}
        own = np.arange(len(places))
        return place_teachers.taught(chosen, galleries, places[:, 1], own)

    progress("where networks look", 0, 1)
    maps = looked(plan.networks, lesson.places)
    course = place_teachers.SaliencyCourse(**({"steps": plan.steps} if plan.steps else {}))
    net = place_teachers.sensitivity(
        lesson.places[:, 1],
        np.mean(list(maps.values()), axis=0),
        course,
        where=plan.device,
        progress=lambda done, total: progress("learn", done, total),
    )
    place_networks.save_sensitivity(net, plan.out, command=plan.command)
    guessed = place_teachers.predicted(net, lesson.tested[:, 1])
    true = looked((*plan.networks, *plan.unmet), lesson.tested)
    agreed = {name: place_teachers.agreement(guessed, each) for name, each in true.items()}
    said = ", ".join(f"{name} {value:.2f}" for name, value in agreed.items())
    return {
        "task": plan.task,
        "learned": len(lesson.places),
        "tested": len(lesson.tested),
        "agreement": agreed,
        "lines": [f"Correlation with where networks look in {len(lesson.tested)} others: {said}."],
    }


def _texture(
    plan: PlaceTraining, networks: Mapping[str, Teacher], lesson: PlaceLesson, progress: Progress
) -> dict[str, Any]:
    progress("features", 0, 1)
    fooled = {
        name: Fooled.of(
            networks[name], networks[name].all_features(lesson.places[:, 0]), lesson.places[:, 1]
        )
        for name in plan.networks
    }
    given: dict[str, Any] = {"steps": plan.steps} if plan.steps else {}
    given |= {"seconds": plan.seconds}
    course = FoolingCourse(**given)
    scenes = PublicScenes.of(lesson.places, lesson.people, plan.device)
    net = texture(
        fooled, scenes, course, progress=lambda done, total: progress("learn", done, total)
    )
    place_networks.save_texture(net, plan.out, command=plan.command)
    tested = PublicScenes.of(lesson.tested, lesson.people, plan.device)
    named = {
        name: name_places(teacher, net, tested, lesson.tested[:, 0], psnr=_EXAM_DB)
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


# --- textures that fool

_AXES = 32  # of the features, along which what stays is measured
_TOGETHER = 32  # textures by which what they have in common is known
_SHRUNK = 0.1  # share of a round spread in that of one place
_functional = nn.functional


@dataclass(frozen=True, kw_only=True)
class FoolingCourse:
    """How long, and how hard.

    Args:
        steps: of Adam, at most.
        seconds: at most.
        batch: places in a step, each in two pictures.
        rate: of learning.
        psnr: dB, from and to.
        staying: weight of what stays the same from release to release.
        softened: share of the steps in which pictures are blurred before networks see them.
        cropped: share of the steps in which networks see a part of the pictures, so that what is
            learned hangs less on where a network's cells lie.
    """

    steps: int = 3_000
    seconds: float = math.inf
    batch: int = 48
    rate: float = 3e-3
    psnr: tuple[float, float] = (30.0, 37.0)
    staying: float = 0.5
    softened: float = 0.25
    cropped: float = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Fooled:
    """One network, and by what it tells places apart.

    Args:
        teacher: the network.
        gallery: (M, D) its features of one picture a place.
        scale: spread of its margins on raw pictures.
        axes: (D, K) main axes of its features, at which places spread by 1.
    """

    teacher: Teacher
    gallery: Tensor
    scale: float
    axes: Tensor

    @classmethod
    def of(cls, teacher: Teacher, gallery: Tensor, raw: np.ndarray) -> Fooled:
        """From one more raw picture (M, H, W, 3) of each place."""
        own = torch.arange(len(gallery), device=gallery.device)
        ahead = margins(teacher.all_features(raw), gallery, own, warmth=0.01)
        moved = gallery - gallery.mean(dim=0)
        _, sizes, axes = torch.linalg.svd(moved, full_matrices=False)
        count = min(_AXES, len(gallery) - 1)
        spreads = sizes[:count, None] / math.sqrt(len(gallery))
        return cls(
            teacher=teacher,
            gallery=gallery,
            scale=float(ahead.std()),
            axes=(axes[:count] / spreads).T.contiguous(),
        )

    def loss(self, pictures: Tensor, own: Tensor, staying: float) -> Tensor:
        """Of released pictures: first one of each place, then another of each."""
        features = self.teacher.features(pictures)
        warmth = 0.25 * self.scale
        ahead = margins(features, self.gallery, own.repeat(2), warmth=warmth)
        told = _functional.softplus(ahead / self.scale).mean()
        if not staying:
            return told
        return told + staying * self._staying(*features.chunk(2))

    def _staying(self, first: Tensor, second: Tensor) -> Tensor:
        """Half the logarithm, an axis, of what places spread over what one place does."""
        a, b = first @ self.axes, second @ self.axes
        middle, inside = (a + b) / 2, (a - b) / math.sqrt(2)
        middle = middle - middle.mean(dim=0)
        within = inside.T @ inside / len(a)
        even = _SHRUNK * within.diagonal().mean().detach()
        within = within + even * torch.eye(len(within), device=a.device)
        both = within + 2 * middle.T @ middle / len(a)
        return 0.5 * (torch.logdet(both) - torch.logdet(within)) / len(within)


def released(pictures: Tensor, fields: Tensor, behind: Tensor, psnr: Tensor) -> Tensor:
    """Pictures (N, 3, H, W) of 0 to 255 with fields on what lies behind people, at (N,) dB."""
    fields = fields * behind
    power = fields.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + 1e-6
    strength = (255 * 10 ** (-psnr / 20)).view(-1, 1, 1, 1)
    made = (pictures + strength * fields / power).clamp(0, 255)
    return made + (made.round() - made).detach()


def random_codes(count: int, size: tuple[int, int], where: str) -> list[Tensor]:
    """For textures of an experiment; what is published has them from the noise source."""
    return [
        torch.normal(0.0, 1.0, size=(count, *shape), device=where)
        for shape in list_code_shapes(*size)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicScenes:
    """Places and people on a device.

    Args:
        places: (N, takes, H, W, 3) uint8, without people.
        people: (M, H, W, 3) uint8, black around them.
        masks: (M, H, W) bool.
    """

    places: Tensor
    people: Tensor
    masks: Tensor

    @classmethod
    def of(cls, places: np.ndarray, people: place_worlds.PublicPeople, where: str) -> PublicScenes:
        """Sent there."""
        given = (places, people.pictures, people.masks)
        places_, people_, masks_ = (torch.from_numpy(each).to(where) for each in given)
        return cls(places=places_, people=people_, masks=masks_)

    def asked(self, own: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Takes 1, then takes 2 of places, somebody in each; and (2N, 1, H, W) what is behind."""
        where = self.places.device
        rows = torch.from_numpy(own).to(where)
        empty = torch.cat([self.places[rows, 1], self.places[rows, 2]])
        who = torch.from_numpy(rng.integers(len(self.masks), size=len(empty))).to(where)
        shown, mask = self.people[who], self.masks[who]
        if rng.random() < 0.5:
            shown, mask = shown.flip(2), mask.flip(2)
        pictures = torch.where(mask[..., None], shown, empty).permute(0, 3, 1, 2).float()
        return pictures, (~mask)[:, None].float()


def texture(
    fooled: Mapping[str, Fooled],
    scenes: PublicScenes,
    course: FoolingCourse,
    *,
    progress: place_worlds.Progress = lambda done, total: None,
) -> PlaceTexture:
    """The network that has learned from places of three takes; takes 1 and 2 are released."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    where, count = scenes.places.device, len(scenes.places)
    net = PlaceTexture().to(where)
    optimiser = torch.optim.Adam(net.parameters(), lr=course.rate, betas=(0.9, 0.99))
    begun = time.perf_counter()
    for step in range(course.steps):
        done = max(step / course.steps, (time.perf_counter() - begun) / course.seconds)
        if done >= 1:
            break
        for group in optimiser.param_groups:
            warm = min(1.0, (step + 1) / 20)
            group["lr"] = course.rate * warm * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))
        own = rng.choice(count, size=min(course.batch, count), replace=False)
        _step(net, fooled, scenes.asked(own, rng), own, course, rng)
        optimiser.step()
        progress(int(1_000 * done), 1_000)
    return net.eval()


def _step(
    net: PlaceTexture,
    fooled: Mapping[str, Fooled],
    asked: tuple[Tensor, Tensor],
    own: np.ndarray,
    course: FoolingCourse,
    rng: np.random.Generator,
) -> None:
    """Gradients of one batch into the network's parameters, one teacher after the other."""
    pictures, behind = asked
    where = str(pictures.device)
    psnr = torch.from_numpy(rng.uniform(*course.psnr, size=len(pictures))).float().to(where)
    size = (pictures.shape[2], pictures.shape[3])
    fields = net(random_codes(len(pictures), size, where))
    fields = fields - fields.mean(dim=0)  # what all have in common anybody can take out
    made = released(pictures, fields, behind, psnr)
    seen = _softer(made, rng) if rng.random() < course.softened else made
    seen = _part(seen, rng) if rng.random() < course.cropped else seen
    leaf = seen.detach().requires_grad_(True)
    numbers = torch.from_numpy(own).to(where)
    total = torch.zeros_like(leaf)
    for one in fooled.values():
        (slope,) = torch.autograd.grad(one.loss(leaf, numbers, course.staying), leaf)
        total += slope / len(fooled)
    net.zero_grad()
    seen.backward(total)


def _part(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """Less some lines and columns at the edges, up to a sixth of them."""
    step = [side // 12 // 2 * 2 for side in pictures.shape[2:]]
    (top, bottom), (left, right) = (rng.integers(0, 2, 2) * each for each in step)
    height, width = pictures.shape[2:]
    return pictures[:, :, top : height - bottom, left : width - right]


def _softer(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """Blurred by a Gaussian, as who takes noise out would."""
    spread = rng.uniform(0.5, 1.5)
    away = torch.arange(-4, 5, device=pictures.device).float()
    bell = torch.exp(-0.5 * (away / spread) ** 2)
    line = (bell / bell.sum()).repeat(3, 1)
    wide = _functional.pad(pictures, (4, 4, 4, 4), mode="reflect")
    across = _functional.conv2d(wide, line[:, None, None, :], groups=3)
    return _functional.conv2d(across, line[:, None, :, None], groups=3)


def draw_textures(net: PlaceTexture, pictures: Tensor) -> Tensor:
    """Textures for pictures (N, 3, H, W), for an experiment, without what they have in common."""
    where, count = str(next(net.parameters()).device), len(pictures)
    size = (pictures.shape[2], pictures.shape[3])
    with torch.no_grad():
        made = net(random_codes(max(_TOGETHER, count), size, where))
        return standardise_fields(made - made.mean(dim=0))[:count]


def name_places(
    teacher: Teacher,
    net: PlaceTexture,
    scenes: PublicScenes,
    gallery: np.ndarray,
    *,
    psnr: float,
) -> dict[str, float]:
    """The share of places that a network names, of pictures raw, with white noise, with texture."""
    pictures, behind = scenes.asked(np.arange(len(gallery)), np.random.default_rng(1))
    pictures, behind = pictures[: len(gallery)], behind[: len(gallery)]
    held = teacher.all_features(gallery)
    found: dict[str, list[Tensor]] = {"raw": [], "white": [], "texture": []}
    torch.manual_seed(1)
    with torch.no_grad():
        for start in range(0, len(pictures), 32):
            some, back = pictures[start : start + 32], behind[start : start + 32]
            strength = torch.full((len(some),), psnr, device=some.device)
            ways = {
                "raw": some,
                "white": released(some, torch.randn_like(some), back, strength),
                "texture": released(some, draw_textures(net, some), back, strength),
            }
            for way, shown in ways.items():
                found[way].append((teacher.features(shown) @ held.T).argmax(dim=1))
    own = torch.arange(len(gallery), device=held.device)
    return {way: float((torch.cat(each) == own).float().mean()) for way, each in found.items()}


if __name__ == "__main__":
    run_tool(PlaceTraining)
