"""Teach a U-Net to redraw films so that an activity stays readable and people do not.

Two networks look at what it draws. The reader is helped: it learns which activity a film shows.
The watcher is fought: in SPAct [dave2022] it learns, without labels, which two frames
come from the same film; in ALF [wu2020] it learns what people look like. They take turns:
one step of the U-Net, for the reader and against the watcher, then one step of both lookers.

Needs numpy and torch and nothing else, so that it runs wherever a GPU is lent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.nets.conv import classifier
from masquerade.nets.unet import UNet

Progress = Callable[[int, int], None]

_CALM = 0.1  # temperature of the contrast
_SIDES = (64, 80, 96)  # pixels; films are shown in several sizes
_EMBEDDED = 64  # numbers that a frame is known by
_WATCHERS = 2  # of ALF: to deceive one of them is easy
_COPYING = 5  # a fifth of the steps more, in which the U-Net first learns to copy
_functional = nn.functional


class Task(StrEnum):
    """What the watcher looks for."""

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
    """

    frames: np.ndarray
    activity: np.ndarray
    looks: np.ndarray
    attributes: Mapping[str, tuple[str, ...]]
    people: np.ndarray

    @property
    def sizes(self) -> list[int]:
        """How many choices each attribute has."""
        return [len(choices) for choices in self.attributes.values()]

    def part(self, rows: np.ndarray) -> PublicFilms:
        """Some of the films."""
        return PublicFilms(
            frames=self.frames[rows],
            activity=self.activity[rows],
            looks=self.looks[rows],
            attributes=self.attributes,
            people=self.people[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Contest:
    """How it is played.

    Args:
        task: what the watcher looks for.
        steps: turns of all players.
        batch: films in a step.
        weight: of the watcher's loss beside the reader's.
        rate: learning rate of all networks.
        seed: of their first weights and of the films' order.
    """

    task: Task
    steps: int
    batch: int = 16
    weight: float = 1.0
    rate: float = 1e-3
    seed: int = 0


def played(contest: Contest, films: PublicFilms, *, where: str, progress: Progress) -> UNet:
    """The U-Net after the contest, on the processor."""
    torch.manual_seed(contest.seed)
    players = _Players(contest, films, where)
    copying = contest.steps // _COPYING
    for step in range(copying + contest.steps):
        if step < copying:
            players.copy()
        else:
            players.draw()
            players.look()
        if contest.task is Task.ALF and step in (
            copying + contest.steps // 3,
            copying + contest.steps // 2,
        ):
            players.replace_watcher()
        progress(step + 1, copying + contest.steps)
    return players.unet.cpu().eval()


class _Players:
    """The three networks, and their moves."""

    def __init__(self, contest: Contest, films: PublicFilms, where: str) -> None:
        self.contest, self.films, self.where = contest, films, where
        self.rng = np.random.default_rng(contest.seed)
        self.frames = torch.from_numpy(films.frames).to(where)
        self.unet = UNet(contest.task).to(where)
        activities = int(films.activity.max()) + 1
        self.reader = classifier(axes=3, channels=3, classes=activities).to(where)
        self.watchers = nn.ModuleList([self._watcher()])
        if contest.task is Task.ALF:
            self.watchers.extend(self._watcher() for _ in range(_WATCHERS - 1))
        self._optimise()

    def _watcher(self) -> nn.Module:
        is_alf = self.contest.task is Task.ALF
        classes = sum(self.films.sizes) if is_alf else _EMBEDDED
        return classifier(axes=2, channels=3, classes=classes).to(self.where)

    def _optimise(self) -> None:
        self.drawing = torch.optim.AdamW(self.unet.parameters(), lr=self.contest.rate)
        lookers = [*self.reader.parameters(), *self.watchers.parameters()]
        self.looking = torch.optim.AdamW(lookers, lr=self.contest.rate)

    def replace_watcher(self) -> None:
        """Let a watcher begin anew, so that not only the one before is deceived [wu2020]."""
        self.watchers[int(self.rng.integers(len(self.watchers)))] = self._watcher()
        self._optimise()

    def copy(self) -> None:
        """The U-Net learns to draw what it sees; the others look at films as they are."""
        films, rows = self._shown()
        self._look_at(films, rows)
        with self._mixed():
            loss = (self._redrawn(films) - films).abs().mean()
        _step(self.drawing, loss)

    def draw(self) -> None:
        """The U-Net draws for the reader and against the watchers."""
        films, rows = self._shown()
        with self._mixed():
            drawn = self._redrawn(films)
            loss = self._read(drawn, rows) - self.contest.weight * self._blindness(drawn, rows)
        _step(self.drawing, loss)

    def look(self) -> None:
        """Reader and watchers learn from what is drawn now."""
        films, rows = self._shown()
        with torch.no_grad(), self._mixed():
            drawn = self._redrawn(films)
        self._look_at(drawn.float(), rows)

    def _look_at(self, films: Tensor, rows: np.ndarray) -> None:
        with self._mixed():
            loss = self._read(films, rows) + self._watch(films, rows)
        _step(self.looking, loss)

    def _shown(self) -> tuple[Tensor, np.ndarray]:
        """A batch of films (N, T, 3, H, W) from -1 to 1, some mirrored, and their rows."""
        rows = self.rng.integers(len(self.frames), size=self.contest.batch)
        films = self.frames[torch.from_numpy(rows).to(self.where)]
        films = films.permute(0, 1, 4, 2, 3).float() / 127.5 - 1
        films = films.flip(-1) if self.rng.random() < 0.5 else films
        side = int(self.rng.choice(_SIDES))
        smaller = _functional.interpolate(films.flatten(0, 1), size=(side, side), mode="area")
        return smaller.unflatten(0, films.shape[:2]), rows

    def _redrawn(self, films: Tensor) -> Tensor:
        drawn: Tensor = self.unet(films.flatten(0, 1)).unflatten(0, films.shape[:2])
        return drawn

    def _read(self, films: Tensor, rows: np.ndarray) -> Tensor:
        """How badly the activity is read."""
        out = self.reader(films.transpose(1, 2))
        return _functional.cross_entropy(out.float(), self._tensor(self.films.activity[rows]))

    def _watch(self, films: Tensor, rows: np.ndarray) -> Tensor:
        """How badly the watchers see."""
        if self.contest.task is Task.SPACT:
            return contrast(*self._pair(films, self.watchers[0]))
        looks = self._tensor(self.films.looks[rows])
        frames = self._one_frame(films)
        losses = [
            attribute_loss(net(frames).float(), looks, self.films.sizes) for net in self.watchers
        ]
        return torch.stack(losses).mean()

    def _blindness(self, films: Tensor, rows: np.ndarray) -> Tensor:
        """What the U-Net wants to be large: the contrast's loss, or how undecided ALF's are."""
        if self.contest.task is Task.SPACT:
            guessing = float(np.log(2 * len(films) - 1))  # beyond it nothing more is hidden
            return self._watch(films, rows).clamp(max=guessing)
        frames = self._one_frame(films)
        doubts = [doubt(net(frames).float(), self.films.sizes) for net in self.watchers]
        return torch.stack(doubts).min()  # the watcher who is surest counts

    def _pair(self, films: Tensor, watcher: nn.Module) -> tuple[Tensor, Tensor]:
        """Two frames of each film, moved and lit a little, as the watcher knows them."""
        first, second = (watcher(self._moved(self._one_frame(films))).float() for _ in range(2))
        return first, second

    def _one_frame(self, films: Tensor) -> Tensor:
        return films[:, int(self.rng.integers(films.shape[1]))]

    def _moved(self, frames: Tensor) -> Tensor:
        across, down = self.rng.integers(-8, 9, 2).tolist()
        light = float(self.rng.uniform(0.8, 1.2))
        return torch.roll(frames, (down, across), dims=(-2, -1)) * light

    def _mixed(self) -> torch.autocast:
        return torch.autocast(self.where, dtype=torch.bfloat16, enabled=self.where != "cpu")

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
