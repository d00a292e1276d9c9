"""What noise costs and what a target needs; nothing here reads data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from masquerade import _check
from masquerade._formatting import round_up_decimals, round_up_significant
from masquerade.accounting import compute_epsilon as epsilon_of
from masquerade.accounting import find_gaussian_sigma, find_noise_multiplier, sensitivity, votes
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.group import group_event
from masquerade.accounting.verdict import PublishedClaim, Verdict
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.result import CommandResult
from masquerade.tradeoff import gaussian_epsilon

_RELATION_NAMES = Literal["zero_out", "replace_one", "add_remove"]

_RELATION_WORDS = {
    "zero_out": "one record is left out",
    "replace_one": "one record is another one",
    "add_remove": "one record more or less",
}


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """The Gaussian mechanism, both ways; several joint releases add in quadrature.

    Args:
        delta: of the guarantee.
        sensitivity: L2 distance of two neighbours.
        epsilon: target; prints the noise it needs.
        noise_std: noise; prints the epsilon it gives.
        releases: how many such releases of the same data are composed.
    """

    delta: float
    sensitivity: float = 1.0
    epsilon: float | None = None
    noise_std: float | None = None
    releases: int = 1

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_std is None):
            raise ValueError("Expected exactly one of --epsilon and --noise-std.")
        _check.delta(delta=self.delta)
        _check.positive(sensitivity=self.sensitivity)
        _check.count(releases=self.releases)
        name = "noise_std" if self.epsilon is None else "epsilon"
        _check.positive(**{name: getattr(self, name)})

    def run(self) -> CommandResult:
        """Sigma for an epsilon, or epsilon for a sigma."""
        distance = self.sensitivity * self.releases**0.5
        if self.epsilon is not None:
            sigma = find_gaussian_sigma(self.epsilon, delta=self.delta, sensitivity=distance)
            return _format_data({"sigma": round_up_significant(sigma)})
        mu = distance / (self.noise_std or 1.0)
        found = gaussian_epsilon(mu * (1 + 1e-15), self.delta)
        return _format_data({"epsilon": round_up_decimals(found), "mu": mu})


@dataclass(frozen=True, kw_only=True)
class PoissonSteps:
    """Poisson-sampled Gaussian steps, under every relation, and with revealed batches.

    Args:
        noise_multiplier: sigma over the clipping norm.
        sampling_prob: chance of a record to be in a batch.
        steps: how many.
        delta: of the guarantee.
        group: how many records somebody has, for whom all of them together are protected.
    """

    noise_multiplier: float
    sampling_prob: float
    steps: int
    delta: float
    group: int = 1

    def __post_init__(self) -> None:
        _check.count(group=self.group)
        _check.positive(noise_multiplier=self.noise_multiplier)
        _check.probability(sampling_prob=self.sampling_prob)
        _check.count(steps=self.steps)
        _check.delta(delta=self.delta)

    def run(self) -> CommandResult:
        """Epsilon for each relation."""

        def find_epsilon(relation: Relation, *, is_revealed: bool) -> float:
            event = make_sampled_gaussian(
                self.noise_multiplier,
                sampling_prob=self.sampling_prob,
                steps=self.steps,
                is_revealed=is_revealed,
            )
            event = group_event(event, self.group)
            return round_up_decimals(epsilon_of(event, delta=self.delta, relation=relation))

        hidden = {
            relation.value: find_epsilon(relation, is_revealed=False) for relation in Relation
        }
        revealed = {
            f"revealed_{relation.value}": find_epsilon(relation, is_revealed=True)
            for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
        }
        found = hidden | revealed
        lines = ["Epsilon, if nobody learns who was in which batch:"]
        lines += [f"  {found[name]} ({name}: {_RELATION_WORDS[name]})" for name in hidden]
        lines.append("Epsilon, if the attacker learns who was in each batch:")
        lines += [
            f"  {found[name]} ({name}: {_RELATION_WORDS[name.removeprefix('revealed_')]})"
            for name in revealed
        ]
        return CommandResult(data=found, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """The noise multiplier that a target needs.

    Args:
        epsilon: target.
        delta: target.
        sampling_prob: chance of a record to be in a batch.
        steps: how many.
        relation: how neighbours differ.
        revealed: whether the attacker sees who is in a batch.
    """

    epsilon: float
    delta: float
    sampling_prob: float
    steps: int
    relation: _RELATION_NAMES = "replace_one"
    revealed: bool = False

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.probability(sampling_prob=self.sampling_prob)
        _check.count(steps=self.steps)
        _check.delta(delta=self.delta)

    def run(self) -> CommandResult:
        """The multiplier, rounded up."""
        found = find_noise_multiplier(
            self.epsilon,
            delta=self.delta,
            sampling_prob=self.sampling_prob,
            steps=self.steps,
            relation=self.relation,
            is_revealed=self.revealed,
        )
        return _format_data({"noise_multiplier": round_up_significant(found)})


@dataclass(frozen=True, kw_only=True)
class Votes:
    """Noisy votes of a teacher ensemble, whatever the teachers said.

    Args:
        aggregator: noise on the counts: Laplace (lnmax), Gaussian (gnmax), Gumbel (gumbel), or
            Gaussian where the largest count first passes a noisy threshold (confident).
        queries: labels asked for.
        delta: of the guarantee.
        epsilon: target; prints the noise it needs.
        gamma: inverse scale of the noise, for lnmax and gumbel.
        noise_std: of the noise, for gnmax and confident.
        threshold_std: of the noise on the threshold, for confident.
        cap: the most queries that are answered, for confident; public.
        shards_per_subject: teachers that one person's data reaches.
    """

    aggregator: Literal["lnmax", "gnmax", "gumbel", "confident"]
    queries: int
    delta: float
    epsilon: float | None = None
    gamma: float | None = None
    noise_std: float | None = None
    threshold_std: float | None = None
    cap: int | None = None
    shards_per_subject: int = 1

    def __post_init__(self) -> None:
        wanted, other = ("gamma", "noise_std") if self._is_inverse else ("noise_std", "gamma")
        has_one = (getattr(self, wanted) is None) != (self.epsilon is None)
        if not has_one or getattr(self, other) is not None:
            raise ValueError(
                f"Expected {wanted} or epsilon, one of them, for aggregator={self.aggregator}, got "
                f"gamma={self.gamma}, noise_std={self.noise_std} and epsilon={self.epsilon}."
            )
        name = "epsilon" if self.epsilon is not None else wanted
        _check.positive(**{name: getattr(self, name)})
        _check.delta(delta=self.delta)
        self._make_terms()

    def run(self) -> CommandResult:
        """Epsilon for the noise, by the least of the bounds that apply, or noise for epsilon."""
        if self.epsilon is None:
            return _format_data(
                self._compute_cost(self.gamma or self.noise_std or 1.0) | self._describe_unit()
            )
        scale = votes.find_vote_scale(self._make_terms(), epsilon=self.epsilon, delta=self.delta)
        if not self._is_inverse:
            return _format_data(
                {"noise_std": scale} | self._compute_cost(scale) | self._describe_unit()
            )
        gamma = -round_up_significant(-1 / scale)  # rounded down: more noise
        return _format_data({"gamma": gamma} | self._compute_cost(gamma) | self._describe_unit())

    @property
    def _is_inverse(self) -> bool:
        return self.aggregator in ("lnmax", "gumbel")

    def _make_terms(self) -> votes.VoteTerms:
        return votes.VoteTerms(
            aggregator=self.aggregator,
            queries=self.queries,
            shards_per_subject=self.shards_per_subject,
            threshold_std=self.threshold_std,
            cap=self.cap,
        )

    def _compute_cost(self, noise: float) -> dict[str, Any]:
        scale = 1 / noise if self._is_inverse else noise
        found, proof = self._make_terms().prove_epsilon(scale, delta=self.delta)
        data: dict[str, Any] = {"epsilon": round_up_decimals(found), "accountant": proof.value}
        if self.aggregator == "lnmax":
            shards = self.shards_per_subject
            bounds = votes.lnmax_bounds(
                noise, queries=self.queries, delta=self.delta, shards_per_subject=shards
            )
            data["bounds"] = {name: round_up_decimals(value) for name, value in bounds.items()}
            data["epsilon"] = min(data["bounds"].values())
        return data

    def _describe_unit(self) -> dict[str, Any]:
        many = self.shards_per_subject > 1
        return {
            "unit": f"subject, in {self.shards_per_subject} shards at most" if many else "shard",
            "relation": "the same for replace_one, zero_out and add_remove",
        }


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How far two neighbouring videos are apart: themselves, projected, and in block means.

    Args:
        unit: what one change may touch.
        frames: of the video.
        height: of a frame.
        width: of a frame.
        pixels: m, for the units pixels and tube.
        channels: of a site.
        block: side of the blocks that are averaged.
        length: frames that are averaged.
        columns: of a fresh Gaussian projection.
        delta: whose tenth is the projection's tail.
    """

    unit: str
    frames: int
    height: int
    width: int
    pixels: int | None = None
    channels: int = 3
    block: int = 1
    length: int = 1
    columns: int | None = None
    delta: float = 1e-4

    def run(self) -> CommandResult:
        """Each distance, L2, for replace_one."""
        film = (self.frames, self.height, self.width, self.channels)
        unit = Unit(name=_check.parse_choice(UnitName, unit=self.unit), sites=self.pixels)
        itself = sensitivity.array_sensitivity(unit, film)
        pooled = sensitivity.block_means_sensitivity(
            unit, film, block=self.block, length=self.length
        )
        data = {"array": itself, "orthonormal_projection": itself, "block_means": pooled}
        if self.columns is not None:
            tail = self.delta / 20
            data["gaussian_projection"] = itself * sensitivity.grid_projection_factor(
                self.columns, tail=tail, rounding_tail=tail
            )
        return _format_data({name: round_up_significant(value) for name, value in data.items()})


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a paper prints, and what holds."""

    ENTRY: ClassVar[tuple[str, str]] = ("paper", "accounting.published")

    def run(self, claim: PublishedClaim) -> CommandResult:
        """Judge the claim at these settings."""
        verdict = claim.judge_claim()
        return CommandResult(data=verdict_data(verdict), lines=verdict_lines(verdict))


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """A verdict as one flat object; the further figures stand beside the rest."""
    return {
        "paper": verdict.paper,
        "claimed": verdict.claimed,
        "claimed_delta": verdict.claimed_delta,
        "claimed_unit": verdict.claimed_unit,
        "valid": verdict.valid,
        "why": verdict.reason,
        **verdict.figures,
        "true_epsilon": verdict.true_epsilon,
        "bound": verdict.bound,
        "ships": verdict.ships,
        "arithmetic": list(verdict.arithmetic),
    }


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict for people."""
    return [
        verdict.title,
        verdict.claim,
        f"True epsilon, {verdict.values}.",
        *(f"  {line}" for line in verdict.arithmetic),
        f"We ship {verdict.ships}",
    ]


def _format_data(data: dict[str, Any]) -> CommandResult:
    lines = []
    for name, value in data.items():
        inner = value.items() if isinstance(value, dict) else ()
        lines += [f"{name}:"] if inner else [f"{name}: {value}"]
        lines += [f"  {key}: {item}" for key, item in inner]
    return CommandResult(data=data, lines=lines)


COMMANDS = {
    "gaussian": Gaussian,
    "poisson": PoissonSteps,
    "calibrate": Calibrate,
    "votes": Votes,
    "sensitivity": Sensitivity,
    "published": Published,
}
