"""Train once more, with canaries: what `masquerade audit` does for a method or a model.

Nothing private is read. The settings are those of the method, and so are sampler, clipping, noise
and loop; the records are canaries, made of public randomness. The model is thrown away.

Two kinds share one run. A *planted* canary pulls at a weight of its own that no output depends on:
who sees every update looks there. A *filmed* canary is a film with a random label: who sees the
last model alone looks at its loss.

A subspace would take a planted canary's weight out of the sum, and nothing would be left to find.
So public records pull at these weights, one at each: the subspace holds every planted canary whole,
and it is noise alone that hides them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.audit.canary import Likelihood, by_coins, tossed
from masquerade.collection import Collection
from masquerade.doors.canary_films import FilmJudge, MadeUpFilms, exchanged, mislabelled
from masquerade.guarantee import Relation
from masquerade.nets.mvit_small import MvitSmall
from masquerade.nets.network import Network
from masquerade.noise import Noise
from masquerade.scores import Scores
from masquerade.train import learner, loop
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.feature_dp import FeatureDp
from masquerade.train.featured import Featured
from masquerade.train.learner import Tell
from masquerade.train.method import Method, planned
from masquerade.train.plan import Plan
from masquerade.train.projecting import Projecting
from masquerade.train.rows import Rows

_PULL = 1e8  # far above any clipping norm
_SHOWS = 1e3  # far above any noise, and far below such a pull
_MOST_ROWS = 3  # of one planted canary
_PHYSICAL = 64
ATTACKS = (
    "every update, planted canaries",
    "every update, filmed canaries",
    "the last model's loss, filmed canaries",
)


@dataclass(frozen=True, kw_only=True)
class Flock:
    """How many canaries there are, of which kind.

    Args:
        planted: that pull at a weight of their own.
        films: that canaries are made of; none for planted ones alone.
        units: in all, which decides the plan; by default as many as there are canaries.
    """

    planted: int = 2000
    films: Collection[Any] | None = field(default_factory=lambda: MadeUpFilms(count=200))
    units: int | None = None

    def __post_init__(self) -> None:
        _check.count(canaries=self.planted)
        if self.planted + self.filmed > self.total:
            raise ValueError(
                f"Expected at most {self.total} canaries, as there are units, got "
                f"{self.planted + self.filmed}; take fewer, or more units."
            )

    @property
    def filmed(self) -> int:
        """Canaries that are films."""
        return 0 if self.films is None else len(self.films)

    @property
    def total(self) -> int:
        """Units of the plan; who is no canary is absent."""
        return self.planted + self.filmed if self.units is None else self.units


@dataclass(frozen=True, kw_only=True, eq=False)
class Sung:
    """What one run with canaries gave.

    Args:
        plan: of the run.
        scores: by attack: "planted" (every update), and with films "updates" and "loss".
    """

    plan: Plan
    scores: dict[str, Scores]


class Planted(nn.Module):
    """A network with weights beside it that no output depends on, but whose gradients a row asks.

    A row is what the network is given, flat, and then a number for each such weight: its gradient
    is that number times the one of the first output.
    """

    def __init__(self, tail: nn.Module, shape: tuple[int, ...], count: int) -> None:
        super().__init__()
        self.tail, self._shape = tail, shape
        self._width = int(np.prod(shape))
        self.planted = nn.Parameter(torch.zeros(count))

    def forward(self, rows: Tensor) -> Tensor:
        """What the network says of the first part."""
        out: Tensor = self.tail(rows[:, : self._width].reshape(-1, *self._shape))
        pull = rows[:, self._width :] @ self.planted
        nothing = (pull - pull.detach())[:, None]
        return torch.cat([out[:, :1] + nothing, out[:, 1:]], dim=1)


def sing(
    method: Method,
    flock: Flock,
    *,
    network: Network | None = None,
    noise: Noise | None = None,
    tell: Tell = lambda what, done, total: None,
) -> Sung:
    """One run with canaries, and what attackers who know all but the coins score them.

    Args:
        method: whose settings.
        flock: of canaries.
        network: that is trained; the small one by default.
        noise: of coins, batches and updates; by default the operating system.
        tell: called with what is done, how far, and of how much.
    """
    return sing_again(method, flock, runs=1, network=network, noise=noise, tell=tell)[0]


def sing_again(
    method: Method,
    flock: Flock,
    *,
    runs: int,
    network: Network | None = None,
    noise: Noise | None = None,
    tell: Tell = lambda what, done, total: None,
) -> tuple[Sung, ...]:
    """Several runs as in `sing`, each with coins, batches and noise of its own.

    Films are read once, and every run begins with the same weights.
    """
    _check.count(runs=runs)
    noise = noise or Noise()
    method = _spanned(method, flock)
    films = flock.films if flock.films is not None else MadeUpFilms(count=1)
    plan = planned(method, flock.total)
    if plan.noise_multiplier == 0:
        raise ValueError("Expected a method with a claim to put to the test, got one without.")
    with learner.read(films, _seen_by(method), network or MvitSmall(), tell=tell) as reading:
        seed, classes = method.public_seed, len(films.activities)
        known = mislabelled(reading.rows, classes=classes, seed=seed)
        begun = copy.deepcopy(reading.tail.state_dict())
        found = []
        for _ in range(runs):
            reading.tail.load_state_dict(begun)
            found.append(_sung(reading.tail, known, method, plan, flock, noise=noise, tell=tell))
        return tuple(found)


def _spanned(method: Method, flock: Flock) -> Method:
    """The method with a direction for each planted canary, if it learns in a subspace."""
    if not isinstance(method, Projecting):
        return method
    if flock.filmed:
        raise ValueError(
            "Expected planted canaries alone for a method with a subspace, which public records "
            "span; use --films 0."
        )
    return replace(method, directions=flock.planted, public_records=flock.planted)


def _seen_by(method: Method) -> Method:
    """A method that sees films alike and wants no public ones: canaries are the public records."""
    if not isinstance(method, Projecting):
        return method
    plain = FeatureDp if isinstance(method, Featured) else DpSgd
    return plain(**{one.name: getattr(method, one.name) for one in fields(plain)})


def _sung(
    network: nn.Module,
    known: Rows,
    method: Method,
    plan: Plan,
    flock: Flock,
    *,
    noise: Noise,
    tell: Tell,
) -> Sung:
    """One run over films that were read."""
    is_in = tossed(flock.planted + flock.filmed, noise)
    tail = Planted(network, tuple(known.private.shape[1:]), _columns(method, flock))
    watch = _Watch(tail, method, plan, flock)
    judge = FilmJudge(network, known, plan, is_replaced=method.met is Relation.REPLACE_ONE)

    def after_step(done: int, total: int) -> None:
        watch.see()
        if flock.filmed:
            judge.see()
        tell("training", done, total)

    rows, work = _rows(known, method, flock, is_in), loop.Workload(physical=_PHYSICAL)
    loop.run(tail, rows, method, plan, noise=noise, work=work, progress=after_step)
    found = {"planted": by_coins(watch.scores, is_in[: flock.planted], attack=ATTACKS[0])}
    if flock.filmed:
        coins = is_in[flock.planted :]
        found["updates"] = by_coins(judge.by_updates(), coins, attack=ATTACKS[1])
        found["loss"] = by_coins(judge.by_loss(), coins, attack=ATTACKS[2])
    return Sung(plan=plan, scores=found)


def _columns(method: Method, flock: Flock) -> int:
    """A weight for each planted canary; where batches are shared, one more for its public part."""
    return flock.planted * (2 if method.shares_batch else 1)


def _rows(given: Rows, method: Method, flock: Flock, is_in: np.ndarray) -> Rows:
    """Rows of all canaries: planted ones first, then films with random labels, then nobody."""
    count, width = flock.planted, given.private[0].numel()
    each = min(given.slots.shape[1], _MOST_ROWS)
    pulls = torch.zeros(count, width + _columns(method, flock))
    is_replaced = method.met is Relation.REPLACE_ONE
    sign = np.where(is_in[:count], 1.0, -1.0 if is_replaced else 1.0)
    places = torch.arange(count)
    pulls[places, width + places] = torch.from_numpy(sign * _PULL).float()
    if is_replaced and flock.filmed:
        given = exchanged(given, is_in[count:])
    films = given.private.flatten(1)
    private = torch.cat([pulls.repeat_interleave(each, dim=0), _padded(films, pulls)])
    slots = np.full((flock.total, given.slots.shape[1]), -1)
    slots[:count, :each] = np.arange(count * each).reshape(count, each)
    own = np.where(given.slots >= 0, given.slots + count * each, -1)
    slots[count : count + flock.filmed] = own[: flock.filmed]
    if not is_replaced:
        slots[np.flatnonzero(~is_in)] = -1  # absent
    targets = torch.cat([torch.zeros(count * each, dtype=torch.int64), given.targets])
    public = None
    if given.public is not None:
        shown = torch.zeros_like(pulls)
        if method.shares_batch:
            shown[places, width + count + places] = _PULL
        shown = shown.repeat_interleave(each, dim=0)
        public = torch.cat([shown, _padded(given.public.flatten(1), pulls)])
    guide = _guide(width, flock, pulls) if method.HAS_SUBSPACE else None
    return Rows(private=private, public=public, targets=targets, slots=slots, guide=guide)


def _guide(width: int, flock: Flock, like: Tensor) -> Rows:
    """Public records of which each pulls at one planted weight, all as hard."""
    count = flock.planted
    pulls = torch.zeros_like(like[:count])
    places = torch.arange(count)
    pulls[places, width + places] = _PULL
    targets = torch.zeros(count, dtype=torch.int64)
    return Rows(private=pulls, public=None, targets=targets, slots=places.numpy()[:, None])


def _padded(films: Tensor, like: Tensor) -> Tensor:
    """Films, which pull at no planted weight."""
    return torch.nn.functional.pad(films, (0, like.shape[1] - films.shape[1]))


class _Watch:
    """Looks at every update, along the weights of planted canaries."""

    def __init__(self, tail: Planted, method: Method, plan: Plan, flock: Flock) -> None:
        self._tail, self._plan, self._flock = tail, plan, flock
        self._is_shown = method.shares_batch
        self._ratio = Likelihood(
            flock.planted,
            sampling_prob=plan.sampler.sampling_prob,
            noise_multiplier=plan.noise_multiplier,
            relation=method.met,
        )

    def see(self) -> None:
        """After a step: its gradient is what made the difference between two iterates."""
        gradient = self._tail.planted.grad
        if gradient is None:
            raise RuntimeError("a step of the loop left no gradient behind")
        seen = -gradient.double().numpy()
        own, shown = np.split(seen, [self._flock.planted])
        if not self._is_shown:
            self._ratio.see(own * self._plan.sampler.expected / self._plan.clip_norm)
            return
        is_drawn = shown > _SHOWS
        size = max(1.0, is_drawn.sum() * self._flock.total / self._flock.planted)
        self._ratio.see(own * size / self._plan.clip_norm, is_drawn)

    @property
    def scores(self) -> np.ndarray:
        """Of each canary, so far."""
        return self._ratio.total
