"""Teach a network textures under which public networks take public places for others.

Two things are asked of a texture. Who compares a released picture with raw ones shall find another
place liker; and who has learned from released pictures shall find little in them that stays the
same from one release of a place to the next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.networks.place_networks import PlaceTexture, code_shapes, standard
from masquerade.recipes.place_teachers import Teacher, margins
from masquerade.recipes.place_worlds import Progress, PublicPeople

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
        torch.normal(0.0, 1.0, size=(count, *shape), device=where) for shape in code_shapes(*size)
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
    def of(cls, places: np.ndarray, people: PublicPeople, where: str) -> PublicScenes:
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
    progress: Progress = lambda done, total: None,
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


def drawn(net: PlaceTexture, pictures: Tensor) -> Tensor:
    """Textures for pictures (N, 3, H, W), for an experiment, without what they have in common."""
    where, count = str(next(net.parameters()).device), len(pictures)
    size = (pictures.shape[2], pictures.shape[3])
    with torch.no_grad():
        made = net(random_codes(max(_TOGETHER, count), size, where))
        return standard(made - made.mean(dim=0))[:count]


def named(
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
                "texture": released(some, drawn(net, some), back, strength),
            }
            for way, shown in ways.items():
                found[way].append((teacher.features(shown) @ held.T).argmax(dim=1))
    own = torch.arange(len(gallery), device=held.device)
    return {way: float((torch.cat(each) == own).float().mean()) for way, each in found.items()}
