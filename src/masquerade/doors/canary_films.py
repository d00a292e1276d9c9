"""Films as canaries: made up, labelled at random, and judged by a model or by every update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.recordings import Video
from masquerade.train import gradients
from masquerade.train.plan import Plan
from masquerade.train.rows import Rows, gathered


@dataclass(frozen=True, kw_only=True)
class MadeUpFilms(Collection[Video]):
    """Films of slow coloured blotches, which show nobody; half of each is called a person.

    Args:
        count: of films.
        seed: public.
    """

    ABOUT: ClassVar[About] = About(
        title="made-up films",
        kind=Medium.VIDEOS,
        licence="none",
        home="",
        citation="",
        is_made_up=True,
    )
    count: int = 100
    seed: int = 0

    @property
    def activities(self) -> tuple[str, ...]:
        """Twelve, which mean nothing."""
        return tuple(f"class {number}" for number in range(12))

    def check(self) -> tuple[Count, ...]:
        """Nothing is on disk."""
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=f"film {n}", subject=f"nobody {n}") for n in range(self.count)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng((self.seed, index))
        blotches = rng.integers(0, 256, (4, 8, 8, 3), np.uint8)
        frames = blotches.repeat(4, axis=0).repeat(8, axis=1).repeat(8, axis=2)
        mask = np.zeros(frames.shape[:3], bool)
        mask[:, :, 32:] = True
        return Video(
            frames=frames,
            rate_hz=10,
            activity=str(rng.choice(self.activities)),
            subject=f"nobody {index}",
            person_mask=mask,
            is_decoded=False,
        )


def mislabelled(rows: Rows, *, classes: int, seed: int) -> Rows:
    """The same films, each unit with a random class; public."""
    rng = np.random.default_rng((seed, 3))
    found = torch.zeros_like(rows.targets)
    for slots in rows.slots:
        found[torch.from_numpy(slots[slots >= 0])] = int(rng.integers(classes))
    return Rows(private=rows.private, public=rows.public, targets=found, slots=rows.slots)


def exchanged(rows: Rows, is_in: np.ndarray) -> Rows:
    """The same films, but a unit that is out has the next unit's private part.

    Its public part and its class stay: neighbours differ in what is private alone.
    """
    found = rows.private.clone()
    for unit in np.flatnonzero(~is_in):
        own, other = rows.slots[unit], rows.slots[(unit + 1) % rows.units]
        is_both = (own >= 0) & (other >= 0)
        found[torch.from_numpy(own[is_both])] = rows.private[torch.from_numpy(other[is_both])]
    return Rows(private=found, public=rows.public, targets=rows.targets, slots=rows.slots)


class FilmJudge:
    """Scores of films: by the last model's loss, and by every update along their own gradients.

    Args:
        tail: what is trained.
        films: of all canaries, as they are when they are in.
        plan: of the run.
        is_replaced: whether a film that is out is exchanged for the next one, or absent.
    """

    def __init__(self, tail: nn.Module, films: Rows, plan: Plan, *, is_replaced: bool) -> None:
        self._tail, self._plan = tail, plan
        everyone = np.arange(films.units)
        self._own = gathered(films, everyone)
        nobody = np.zeros(films.units, bool)
        self._other = gathered(exchanged(films, nobody), everyone) if is_replaced else None
        self._before = self._gain()
        self._weights = self._copied()
        self._along = np.zeros(films.units)

    def see(self) -> None:
        """Take in a step that was just done: who was in its sum, as far as that can be told.

        What films contribute overlaps, so they are told apart together: the best linear estimate
        of who was drawn, given how rarely that happens and how much noise is claimed.
        """
        held = dict(self._tail.named_parameters())
        update = {name: held[name].grad for name in self._weights}
        total = _flat({name: one[None] for name, one in update.items() if one is not None})[0]
        rarely = self._plan.sampler.sampling_prob / 2
        apart = own = self._clipped(self._own)
        usual = own.sum(dim=0) * rarely
        if self._other is not None:
            other = self._clipped(self._other)
            apart, usual = own - other, usual + other.sum(dim=0) * rarely
        overlap = (apart @ apart.T).double()  # float32 is enough for an attacker, and quicker
        overlap += torch.eye(len(apart)).double() * (self._plan.sigma**2 / rarely)
        rest = (apart @ (total * self._plan.sampler.expected - usual)).double()
        self._along += torch.linalg.solve(overlap, rest).numpy()
        self._weights = self._copied()

    def by_updates(self) -> np.ndarray:
        """How often each film seems to have been drawn."""
        return self._along

    def by_loss(self) -> np.ndarray:
        """How much likelier training made each film's label."""
        return np.asarray(self._gain() - self._before)

    def _gain(self) -> np.ndarray:
        found = -1.0 * self._loss_of(self._own)
        return found if self._other is None else np.add(found, self._loss_of(self._other))

    def _loss_of(self, lesson: tuple[Tensor, Tensor, Tensor]) -> np.ndarray:
        inputs, targets, shares = lesson
        with torch.no_grad():
            out = self._tail(inputs.flatten(0, 1)).float()
        each = torch.nn.functional.cross_entropy(out, targets.flatten(), reduction="none")
        return np.asarray((each.reshape(shares.shape) * shares).sum(dim=1).double().numpy())

    def _copied(self) -> dict[str, Tensor]:
        named = self._tail.named_parameters()
        return {name: one.detach().clone() for name, one in named if one.requires_grad}

    def _clipped(self, lesson: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """(N, all weights): each film's contribution at the weights before the step."""

        def loss(weights: Mapping[str, Tensor], inputs: Tensor, wanted: Any) -> Tensor:
            targets, shares = wanted
            out = torch.func.functional_call(self._tail, dict(weights), (inputs,)).float()
            each = torch.nn.functional.cross_entropy(out, targets, reduction="none")
            total: Tensor = (each * shares).sum()
            return total

        inputs, *wanted = lesson
        found = gradients.per_record(
            loss, self._weights, inputs, tuple(wanted), chunk=max(1, len(inputs))
        )
        flat, size = _flat(found), gradients.norms(found)
        factor = (self._plan.clip_norm / size.clamp_min(1e-300)).clamp_max(1.0)
        return flat * factor.to(flat.dtype)[:, None]


def _flat(found: Mapping[str, Tensor]) -> Tensor:
    """(N, all weights) float32."""
    return torch.cat([one.float().flatten(1) for one in found.values()], dim=1)
