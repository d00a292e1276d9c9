"""Teach a U-Net to redraw films so that an activity stays readable and people do not.

Two kinds of network look at what it draws. The reader is helped: it says which activity a film
shows, and learns along. The watchers are fought: in SPAct [dave2022] one learns, without labels,
which two frames come from the same film; in ALF [wu2020] several learn what people look like.
They take turns: one step of U-Net and reader, against the watchers, then some of the watchers.

How much is hidden is not set by a weight alone: the watchers count the less, the worse the reader
reads, and no longer where its loss is more than what is bearable. So the activity survives, and as
much is hidden beside it as can be.

Needs numpy and what mvit_small needs (torch, torchvision, safetensors), and nothing else, so that
it runs wherever a GPU is lent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.networks import mvit_layers
from masquerade.networks.picture_crops import crop_person
from masquerade.networks.small_networks import UNet, make_classifier

Progress = Callable[[int, int], None]

_CALM = 0.1  # temperature of the contrast
_SIDES = (64, 96)  # pixels; films are shown in several sizes
_EMBEDDED = 64  # numbers that a frame is known by
_WATCHERS = 3  # of ALF: to deceive one of them is easy
_WIDTHS = (32, 64, 128, 256)  # of a watcher
_LOOKS = 2  # steps of the watchers for each of the U-Net's
_MORE = 2  # times as many films are watched as are read: only one or two frames of each
_WARM = 10  # a tenth of the steps is without the watchers' loss, so that they know something then
_READER_RATE = 0.1  # of the U-Net's: it has learned before
_MEMORY = 0.95  # of how badly the reader read before
_functional = nn.functional


class Task(StrEnum):
    """What the watchers look for."""

    SPACT = "spact"
    ALF = "alf"


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFilms:
    """Films of people who never lived, and what is true about them.

    Args:
        frames: (N, T, H, W, 3) uint8.
        activity: (N,) which is shown.
        looks: (N, A) what the one who acts looks like, by attribute.
        attributes: the choices of each attribute, in the order of ``looks``.
        people: (N,) who acts.
        boxes: (N, T, 3) float32: x and y of the middle of the one who acts, and the side of a
            square around; all as shares of the frame's side.
    """

    frames: np.ndarray
    activity: np.ndarray
    looks: np.ndarray
    attributes: Mapping[str, tuple[str, ...]]
    people: np.ndarray
    boxes: np.ndarray

    @property
    def sizes(self) -> list[int]:
        """How many choices each attribute has."""
        return [len(choices) for choices in self.attributes.values()]

    def part(self, rows: np.ndarray) -> PublicFilms:
        """Some of the films."""
        names = ("frames", "activity", "looks", "people", "boxes")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


@dataclass(frozen=True, kw_only=True)
class Contest:
    """How it is played.

    Args:
        task: what the watchers look for.
        steps: turns of all players.
        batch: films in a step.
        weight: of the watchers beside the reader, where it reads without fault.
        bearable: the reader's loss, in nats, from which on the watchers no longer count.
        rate: learning rate of U-Net and watchers, at first.
        seed: of their first weights and of the films' order.
    """

    task: Task
    steps: int
    batch: int = 16
    weight: float = 4.0
    bearable: float = 0.8
    rate: float = 1e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shown:
    """A batch: films (N, T, 3, H, W) from -1 to 1, their rows, and boxes as in `PublicFilms`."""

    films: Tensor
    rows: np.ndarray
    boxes: Tensor


def played(contest: Contest, films: PublicFilms, *, where: str, progress: Progress) -> UNet:
    """The U-Net after the contest, on the processor."""
    torch.manual_seed(contest.seed)
    players = _Players(contest, films, where)
    for step in range(contest.steps):
        players.draw(is_warm=step * _WARM >= contest.steps)
        for _ in range(_LOOKS):
            players.look()
        if contest.task is Task.ALF and step in (contest.steps // 3, contest.steps // 2):
            players.replace_watcher()
        progress(step + 1, contest.steps)
    return players.unet.cpu().eval()


def reader() -> nn.Module:
    """The public network, which reads films (N, 3, T, H, W) from -1 to 1."""
    net: nn.Module = mvit_layers.load_pretrained_mvit("mvit_small")
    net.register_forward_pre_hook(
        lambda _, given: (mvit_layers.fit_films(given[0] / 2 + 0.5, "mvit_small"),)
    )
    return net


class _Players:
    """The networks, and their moves."""

    def __init__(self, contest: Contest, films: PublicFilms, where: str) -> None:
        self.contest, self.known, self.where = contest, films, where
        self.rng = np.random.default_rng(contest.seed)
        self.frames = torch.from_numpy(films.frames).to(where)
        self.unet, self.reader = UNet(contest.task).to(where), reader().to(where)
        several = _WATCHERS if contest.task is Task.ALF else 1
        self.watchers = nn.ModuleList(self._watcher() for _ in range(several))
        self.misread = 0.0  # how badly was read lately, in nats
        slow: dict[str, Any] = {
            "params": self.reader.parameters(),
            "lr": _READER_RATE * contest.rate,
        }
        self.drawing = torch.optim.AdamW(
            [{"params": self.unet.parameters()}, slow], lr=contest.rate
        )
        self.slowing = torch.optim.lr_scheduler.CosineAnnealingLR(self.drawing, contest.steps)
        self.looking = self._optimiser()

    def _watcher(self) -> nn.Module:
        is_alf = self.contest.task is Task.ALF
        classes = sum(self.known.sizes) if is_alf else _EMBEDDED
        return make_classifier(axes=2, channels=3, classes=classes, widths=_WIDTHS).to(self.where)

    def _optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.watchers.parameters(), lr=self.contest.rate)

    def replace_watcher(self) -> None:
        """Let a watcher begin anew, so that not only the one before is deceived [wu2020]."""
        self.watchers[int(self.rng.integers(len(self.watchers)))] = self._watcher()
        self.looking = self._optimiser()

    def draw(self, *, is_warm: bool) -> None:
        """U-Net and reader: for the activity, and once warm against the watchers."""
        shown = self._shown(self.contest.batch, self.known.frames.shape[1])
        drawn = replace(shown, films=self._redrawn(shown.films))
        out = self.reader(drawn.films.transpose(1, 2)).float()
        loss = _functional.cross_entropy(out, self._tensor(self.known.activity[shown.rows]))
        self.misread = _MEMORY * self.misread + (1 - _MEMORY) * loss.item()
        weight = self.contest.weight * max(0.0, 1 - self.misread / self.contest.bearable)
        if is_warm and weight:
            loss = loss - weight * self._blindness(drawn)
        _step(self.drawing, loss)
        self.slowing.step()

    def look(self) -> None:
        """The watchers learn from what is drawn now, a few frames of more films."""
        shown = self._shown(_MORE * self.contest.batch, 2)
        with torch.no_grad():
            drawn = replace(shown, films=self._redrawn(shown.films))
        _step(self.looking, self._unseen(drawn))

    def _shown(self, count: int, length: int) -> _Shown:
        """Some films, some of them mirrored; all their frames, or as many as are wanted."""
        rows = self.rng.integers(len(self.frames), size=count)
        whole = self.known.frames.shape[1]
        some = np.sort(self.rng.permutation(whole)[:length])
        films = self.frames[torch.from_numpy(rows).to(self.where)][:, some]
        films = films.permute(0, 1, 4, 2, 3).float() / 127.5 - 1
        boxes = self._tensor(self.known.boxes[rows][:, some])
        if self.rng.random() < 0.5:
            films, boxes = films.flip(-1), torch.cat([1 - boxes[..., :1], boxes[..., 1:]], dim=-1)
        side = int(self.rng.choice(_SIDES))
        if side < films.shape[-1]:
            flat = _functional.interpolate(films.flatten(0, 1), size=(side, side), mode="area")
            films = flat.unflatten(0, films.shape[:2])
        return _Shown(films=films, rows=rows, boxes=boxes)

    def _redrawn(self, films: Tensor) -> Tensor:
        drawn: Tensor = self.unet(films.flatten(0, 1)).unflatten(0, films.shape[:2])
        return drawn

    def _unseen(self, drawn: _Shown) -> Tensor:
        """How badly the watchers see."""
        if self.contest.task is Task.SPACT:
            return contrast(*self._pair(drawn.films))
        looks = self._tensor(self.known.looks[drawn.rows])
        losses = [attribute_loss(out, looks, self.known.sizes) for out in self._said(drawn)]
        return torch.stack(losses).mean()

    def _blindness(self, drawn: _Shown) -> Tensor:
        """What the U-Net wants to be 1: how blind the watcher is that sees best."""
        if self.contest.task is Task.SPACT:
            guessing = float(np.log(2 * len(drawn.films) - 1))  # beyond it nothing more is hidden
            return contrast(*self._pair(drawn.films)).clamp(max=guessing) / guessing
        return torch.stack([doubt(out, self.known.sizes) for out in self._said(drawn)]).min()

    def _pair(self, films: Tensor) -> tuple[Tensor, Tensor]:
        """Two frames of each film, moved and lit a little, as the watcher knows them."""
        some = self.rng.permutation(films.shape[1])[:2]
        first, second = (self.watchers[0](self._moved(films[:, number])) for number in some)
        return first, second

    def _said(self, drawn: _Shown) -> list[Tensor]:
        """What each watcher says of a person, from one frame of each film."""
        number = int(self.rng.integers(drawn.films.shape[1]))
        crops = crop_person(drawn.films[:, number], drawn.boxes[:, number])
        return [watcher(crops) for watcher in self.watchers]

    def _moved(self, frames: Tensor) -> Tensor:
        across, down = self.rng.integers(-8, 9, 2).tolist()
        light = float(self.rng.uniform(0.8, 1.2))
        return torch.roll(frames, (down, across), dims=(-2, -1)) * light

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.where)


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


def contrast(first: Tensor, second: Tensor) -> Tensor:
    """NT-Xent: how badly frames (N, E) are matched to those of the same films [dave2022].

    Example:
        >>> alike, apart = torch.eye(4), torch.ones(4, 4)
        >>> contrast(alike, alike) < 0.01, round(contrast(apart, apart).item(), 3)
        (tensor(True), 1.946)
    """
    both = _functional.normalize(torch.cat([first, second]), dim=1)
    likeness = both @ both.T / _CALM
    likeness = likeness.masked_fill(torch.eye(len(both), device=both.device).bool(), -torch.inf)
    half = len(first)
    partner = torch.arange(2 * half, device=both.device).roll(half)
    return _functional.cross_entropy(likeness, partner)


def attribute_loss(out: Tensor, looks: Tensor, sizes: Sequence[int]) -> Tensor:
    """Mean cross entropy over attributes of outputs (N, sum of sizes) and looks (N, A)."""
    parts = out.split(list(sizes), dim=1)
    losses = [_functional.cross_entropy(part, looks[:, k]) for k, part in enumerate(parts)]
    return torch.stack(losses).mean()


def doubt(out: Tensor, sizes: Sequence[int]) -> Tensor:
    """How undecided outputs (N, sum of sizes) are: mean entropy, as a share of the largest.

    Example:
        >>> doubt(torch.zeros(2, 5), (2, 3)).item()
        1.0
    """
    shares = []
    for part in out.split(list(sizes), dim=1):
        chance = part.log_softmax(dim=1)
        shares.append(-(chance.exp() * chance).sum(dim=1).mean() / np.log(part.shape[1]))
    return torch.stack(shares).mean()
