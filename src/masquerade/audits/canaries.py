"""Train once more, with canaries: what `masquerade audit` does for a method or a model.

Nothing private is read. The settings are those of the method, and so are sampler, clipping, noise
and loop; the records are canaries, made of public randomness. The model is thrown away.

Two kinds share one run. A *planted* canary pulls at a weight of its own that no output depends on:
who sees every update looks there. A *filmed* canary is a film with a random label: who sees the
last model alone looks at its loss.

A subspace would take a planted canary's weight out of the sum, and nothing would be left to find.
So public records pull at these weights, one at each: the subspace holds every planted canary whole,
and it is noise alone that hides them.

Films as canaries: made up, labelled at random, and judged by a model or by every update.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from masquerade import _check
from masquerade._optional import torch
from masquerade._torch import Tensor, nn
from masquerade.audits.one_run import LikelihoodTracker, score_by_coins, toss_coins
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.guarantee import Relation
from masquerade.networks.network import MvitSmall, Network
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.scores import Scores
from masquerade.training import gradients, learner, loop
from masquerade.training.learner import ProgressCallback
from masquerade.training.method import Method, make_training_plan
from masquerade.training.methods import DpSgd, Featured, FeatureDp, Projecting
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows, gather_rows


@dataclass(frozen=True, kw_only=True)
class MadeUpFilms(Collection[Video]):
    """Films of slow coloured blotches, which show nobody; half of each is called a person.

    Args:
        count: of films.
        seed: public.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
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

    def check(self) -> tuple[CountLine, ...]:
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


def mislabel_rows(rows: Rows, *, classes: int, seed: int) -> Rows:
    """The same films, each unit with a random class; public."""
    rng = np.random.default_rng((seed, 3))
    found = torch.zeros_like(rows.targets)
    for slots in rows.slots:
        found[torch.from_numpy(slots[slots >= 0])] = int(rng.integers(classes))
    return Rows(private=rows.private, public=rows.public, targets=found, slots=rows.slots)


def exchange_rows(rows: Rows, is_in: np.ndarray) -> Rows:
    """The same films, but a unit that is out has the next unit's private part.

    Its public part and its class stay: neighbours differ in what is private alone.
    """
    found = rows.private.clone()
    for unit in np.flatnonzero(~is_in):
        own, other = rows.slots[unit], rows.slots[(unit + 1) % rows.num_units]
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

    def __init__(
        self, tail: torch.nn.Module, films: Rows, plan: TrainingPlan, *, is_replaced: bool
    ) -> None:
        self._tail, self._plan = tail, plan
        everyone = np.arange(films.num_units)
        self._own = gather_rows(films, everyone)
        nobody = np.zeros(films.num_units, bool)
        self._other = gather_rows(exchange_rows(films, nobody), everyone) if is_replaced else None
        self._before = self._measure_gain()
        self._weights = self._copy_weights()
        self._along = np.zeros(films.num_units)

    def observe_step(self) -> None:
        """Take in a step that was just done: who was in its sum, as far as that can be told.

        What films contribute overlaps, so they are told apart together: the best linear estimate
        of who was drawn, given how rarely that happens and how much noise is claimed.
        """
        held = dict(self._tail.named_parameters())
        update = {name: held[name].grad for name in self._weights}
        total = _flatten_gradients(
            {name: one[None] for name, one in update.items() if one is not None}
        )[0]
        rarely = self._plan.sampler.sampling_prob / 2
        apart = own = self._clip_contributions(self._own)
        usual = own.sum(dim=0) * rarely
        if self._other is not None:
            other = self._clip_contributions(self._other)
            apart, usual = own - other, usual + other.sum(dim=0) * rarely
        overlap = (apart @ apart.T).double()  # float32 is enough for an attacker, and quicker
        overlap += torch.eye(len(apart)).double() * (self._plan.sigma**2 / rarely)
        rest = (apart @ (total * self._plan.sampler.expected - usual)).double()
        self._along += torch.linalg.solve(overlap, rest).numpy()
        self._weights = self._copy_weights()

    def score_by_updates(self) -> np.ndarray:
        """How often each film seems to have been drawn."""
        return self._along

    def score_by_loss(self) -> np.ndarray:
        """How much likelier training made each film's label."""
        return np.asarray(self._measure_gain() - self._before)

    def _measure_gain(self) -> np.ndarray:
        found = -1.0 * self._loss_of(self._own)
        return found if self._other is None else np.add(found, self._loss_of(self._other))

    def _loss_of(self, lesson: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> np.ndarray:
        inputs, targets, shares = lesson
        with torch.no_grad():
            out = self._tail(inputs.flatten(0, 1)).float()
        each = torch.nn.functional.cross_entropy(out, targets.flatten(), reduction="none")
        return np.asarray((each.reshape(shares.shape) * shares).sum(dim=1).double().numpy())

    def _copy_weights(self) -> dict[str, torch.Tensor]:
        named = self._tail.named_parameters()
        return {name: one.detach().clone() for name, one in named if one.requires_grad}

    def _clip_contributions(
        self, lesson: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        """(N, all weights): each film's contribution at the weights before the step."""

        def compute_film_loss(
            weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, wanted: Any
        ) -> torch.Tensor:
            targets, shares = wanted
            out = torch.func.functional_call(self._tail, dict(weights), (inputs,)).float()
            each = torch.nn.functional.cross_entropy(out, targets, reduction="none")
            total: torch.Tensor = (each * shares).sum()
            return total

        inputs, *wanted = lesson
        found = gradients.per_record(
            compute_film_loss, self._weights, inputs, tuple(wanted), chunk=max(1, len(inputs))
        )
        flat, size = _flatten_gradients(found), gradients.compute_norms(found)
        factor = (self._plan.clip_norm / size.clamp_min(1e-300)).clamp_max(1.0)
        return flat * factor.to(flat.dtype)[:, None]


def _flatten_gradients(found: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """(N, all weights) float32."""
    return torch.cat([one.float().flatten(1) for one in found.values()], dim=1)


_PULL_SIZE = 1e8  # far above any clipping norm
_MIN_VISIBLE_PULL = 1e3  # far above any noise, and far below such a pull
_MAX_ROWS = 3  # of one planted canary
_PHYSICAL_BATCH_SIZE = 64
CANARY_ATTACKS = (
    "every update, planted canaries",
    "every update, filmed canaries",
    "the last model's loss, filmed canaries",
)


@dataclass(frozen=True, kw_only=True)
class CanarySet:
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
        if self.planted + self.num_films > self.num_units:
            raise ValueError(
                f"Expected at most {self.num_units} canaries, as there are units, got "
                f"{self.planted + self.num_films}; take fewer, or more units."
            )

    @property
    def num_films(self) -> int:
        """Canaries that are films."""
        return 0 if self.films is None else len(self.films)

    @property
    def num_units(self) -> int:
        """Units of the plan; who is no canary is absent."""
        return self.planted + self.num_films if self.units is None else self.units


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryRun:
    """What one run with canaries gave.

    Args:
        plan: of the run.
        scores: by attack: "planted" (every update), and with films "updates" and "loss".
    """

    plan: TrainingPlan
    scores: dict[str, Scores]


class PlantedNetwork(nn.Module):
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


def run_canaries(
    method: Method,
    flock: CanarySet,
    *,
    network: Network | None = None,
    noise: Noise | None = None,
    tell: ProgressCallback = lambda what, done, total: None,
) -> CanaryRun:
    """One run with canaries, and what attackers who know all but the coins score them.

    Args:
        method: whose settings.
        flock: of canaries.
        network: that is trained; the small one by default.
        noise: of coins, batches and updates; by default the operating system.
        tell: called with what is done, how far, and of how much.
    """
    return repeat_canaries(method, flock, runs=1, network=network, noise=noise, tell=tell)[0]


def repeat_canaries(
    method: Method,
    flock: CanarySet,
    *,
    runs: int,
    network: Network | None = None,
    noise: Noise | None = None,
    tell: ProgressCallback = lambda what, done, total: None,
) -> tuple[CanaryRun, ...]:
    """Several runs as in `run_canaries`, each with coins, batches and noise of its own.

    Films are read once, and every run begins with the same weights.
    """
    _check.count(runs=runs)
    noise = noise or Noise()
    method = _add_canary_directions(method, flock)
    films = flock.films if flock.films is not None else MadeUpFilms(count=1)
    plan = make_training_plan(method, flock.num_units)
    if plan.noise_multiplier == 0:
        raise ValueError("Expected a method with a claim to put to the test, got one without.")
    with learner.read_recordings(
        films, _simplify_method(method), network or MvitSmall(), tell=tell
    ) as reading:
        seed, classes = method.public_seed, len(films.activities)
        known = mislabel_rows(reading.rows, classes=classes, seed=seed)
        begun = copy.deepcopy(reading.tail.state_dict())
        found = []
        for _ in range(runs):
            reading.tail.load_state_dict(begun)
            found.append(
                _run_over_films(reading.tail, known, method, plan, flock, noise=noise, tell=tell)
            )
        return tuple(found)


def _add_canary_directions(method: Method, flock: CanarySet) -> Method:
    """The method with a direction for each planted canary, if it learns in a subspace."""
    if not isinstance(method, Projecting):
        return method
    if flock.num_films:
        raise ValueError(
            "Expected planted canaries alone for a method with a subspace, which public records "
            "span; use --films 0."
        )
    return replace(method, directions=flock.planted, public_records=flock.planted)


def _simplify_method(method: Method) -> Method:
    """A method that sees films alike and wants no public ones: canaries are the public records."""
    if not isinstance(method, Projecting):
        return method
    plain = FeatureDp if isinstance(method, Featured) else DpSgd
    return plain(**{one.name: getattr(method, one.name) for one in fields(plain)})


def _run_over_films(
    network: nn.Module,
    known: Rows,
    method: Method,
    plan: TrainingPlan,
    flock: CanarySet,
    *,
    noise: Noise,
    tell: ProgressCallback,
) -> CanaryRun:
    """One run over films that were read."""
    is_in = toss_coins(flock.planted + flock.num_films, noise)
    tail = PlantedNetwork(network, tuple(known.private.shape[1:]), _count_columns(method, flock))
    watch = _UpdateWatcher(tail, method, plan, flock)
    judge = FilmJudge(
        network, known, plan, is_replaced=method.target_relation is Relation.REPLACE_ONE
    )

    def after_step(done: int, total: int) -> None:
        watch.observe_step()
        if flock.num_films:
            judge.observe_step()
        tell("training", done, total)

    rows, work = (
        _build_canary_rows(known, method, flock, is_in),
        loop.Workload(physical=_PHYSICAL_BATCH_SIZE),
    )
    loop.run_training(tail, rows, method, plan, noise=noise, work=work, progress=after_step)
    found = {
        "planted": score_by_coins(watch.scores, is_in[: flock.planted], attack=CANARY_ATTACKS[0])
    }
    if flock.num_films:
        coins = is_in[flock.planted :]
        found["updates"] = score_by_coins(judge.score_by_updates(), coins, attack=CANARY_ATTACKS[1])
        found["loss"] = score_by_coins(judge.score_by_loss(), coins, attack=CANARY_ATTACKS[2])
    return CanaryRun(plan=plan, scores=found)


def _count_columns(method: Method, flock: CanarySet) -> int:
    """A weight for each planted canary; where batches are shared, one more for its public part."""
    return flock.planted * (2 if method.is_batch_shared else 1)


def _build_canary_rows(given: Rows, method: Method, flock: CanarySet, is_in: np.ndarray) -> Rows:
    """Rows of all canaries: planted ones first, then films with random labels, then nobody."""
    count, width = flock.planted, given.private[0].numel()
    each = min(given.slots.shape[1], _MAX_ROWS)
    pulls = torch.zeros(count, width + _count_columns(method, flock))
    is_replaced = method.target_relation is Relation.REPLACE_ONE
    sign = np.where(is_in[:count], 1.0, -1.0 if is_replaced else 1.0)
    places = torch.arange(count)
    pulls[places, width + places] = torch.from_numpy(sign * _PULL_SIZE).float()
    if is_replaced and flock.num_films:
        given = exchange_rows(given, is_in[count:])
    films = given.private.flatten(1)
    private = torch.cat([pulls.repeat_interleave(each, dim=0), _pad_films(films, pulls)])
    slots = np.full((flock.num_units, given.slots.shape[1]), -1)
    slots[:count, :each] = np.arange(count * each).reshape(count, each)
    own = np.where(given.slots >= 0, given.slots + count * each, -1)
    slots[count : count + flock.num_films] = own[: flock.num_films]
    if not is_replaced:
        slots[np.flatnonzero(~is_in)] = -1  # absent
    targets = torch.cat([torch.zeros(count * each, dtype=torch.int64), given.targets])
    public = None
    if given.public is not None:
        shown = torch.zeros_like(pulls)
        if method.is_batch_shared:
            shown[places, width + count + places] = _PULL_SIZE
        shown = shown.repeat_interleave(each, dim=0)
        public = torch.cat([shown, _pad_films(given.public.flatten(1), pulls)])
    guide = _build_guide_rows(width, flock, pulls) if method.HAS_SUBSPACE else None
    return Rows(private=private, public=public, targets=targets, slots=slots, guide=guide)


def _build_guide_rows(width: int, flock: CanarySet, like: Tensor) -> Rows:
    """Public records of which each pulls at one planted weight, all as hard."""
    count = flock.planted
    pulls = torch.zeros_like(like[:count])
    places = torch.arange(count)
    pulls[places, width + places] = _PULL_SIZE
    targets = torch.zeros(count, dtype=torch.int64)
    return Rows(private=pulls, public=None, targets=targets, slots=places.numpy()[:, None])


def _pad_films(films: Tensor, like: Tensor) -> Tensor:
    """Films, which pull at no planted weight."""
    return torch.nn.functional.pad(films, (0, like.shape[1] - films.shape[1]))


class _UpdateWatcher:
    """Looks at every update, along the weights of planted canaries."""

    def __init__(
        self, tail: PlantedNetwork, method: Method, plan: TrainingPlan, flock: CanarySet
    ) -> None:
        self._tail, self._plan, self._flock = tail, plan, flock
        self._is_shown = method.is_batch_shared
        self._ratio = LikelihoodTracker(
            flock.planted,
            sampling_prob=plan.sampler.sampling_prob,
            noise_multiplier=plan.noise_multiplier,
            relation=method.target_relation,
        )

    def observe_step(self) -> None:
        """After a step: its gradient is what made the difference between two iterates."""
        gradient = self._tail.planted.grad
        if gradient is None:
            raise RuntimeError("a step of the loop left no gradient behind")
        seen = -gradient.double().numpy()
        own, shown = np.split(seen, [self._flock.planted])
        if not self._is_shown:
            self._ratio.observe_sum(own * self._plan.sampler.expected / self._plan.clip_norm)
            return
        is_drawn = shown > _MIN_VISIBLE_PULL
        size = max(1.0, is_drawn.sum() * self._flock.num_units / self._flock.planted)
        self._ratio.observe_sum(own * size / self._plan.clip_norm, is_drawn)

    @property
    def scores(self) -> np.ndarray:
        """Of each canary, so far."""
        return self._ratio.total
