"""Audits: the game of a mechanism by name, and of training by canaries.

An audit of training: what a method, or a model's receipt, claims beside what canaries show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from masquerade import _check, _json, catalog
from masquerade._formatting import format_rounded_down, format_rounded_up
from masquerade._optional import lazy_module
from masquerade.audits.bounds import choose_smallest_bound, confidence_each, poisson_tradeoff
from masquerade.audits.game import Claim, Game, MechanismGame
from masquerade.audits.one_run import one_run_coins, one_run_poisson
from masquerade.audits.paper_games import MaskDpBatches, VideoDprpValue
from masquerade.audits.vote_games import ConfidentVotes, GnmaxVotes, GumbelVotes, TempdiffVotes
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.mechanism import VideoMechanism
from masquerade.networks.network import MvitSmall, Network, make_described_network
from masquerade.noise import Noise
from masquerade.publish.models import make_method
from masquerade.publish.receipts import check_receipt, make_promise
from masquerade.publish.recording import make_mechanism
from masquerade.result import CommandResult
from masquerade.scores import Evidence
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import ProgressCallback, read_model_fields
from masquerade.training.method import Method, PromiseWithPublic

if TYPE_CHECKING:
    from masquerade.audits import canaries as canary_runs
    from masquerade.audits.canaries import CanaryRun
else:
    canary_runs = lazy_module("masquerade.audits.canaries", extra="train")

_CANARY_METHODS = (  # canaries know these
    *("dp_sgd", "feature_dp", "feature_projective", "mask_dp", "multi_clip", "pate", "projected"),
    "tempdiff",
)


def list_games() -> dict[str, str]:
    """The names that can be played, and the room of each."""
    found = {name: "audits" for name in catalog.list_entries("audits")}
    formal = (
        name
        for name in catalog.list_entries("mechanisms")
        if not catalog.is_a("mechanisms", name, "Heuristic")
    )
    return found | {name: "mechanisms" for name in formal}


def find_game(name: str) -> Game:
    """The game of that name: one of `masquerade.audits`, or a mechanism's own worst case."""
    if name not in list_games():
        raise ValueError(_check.describe_unknown("game", name, (*list_games(), *_CANARY_METHODS)))
    example = catalog.make_example(list_games()[name], name)
    if list_games()[name] == "audits":
        game: Game = example
        return game
    trials = 4_000 if isinstance(example, VideoMechanism) else 10_000  # of which each costs more
    return MechanismGame(mechanism=example, trials=trials)


def audit_game(
    game: Game, *, trials: int | None = None, confidence: float = 0.95, noise: Noise | None = None
) -> Evidence:
    """Play a game and give what was measured; a `MechanismGame` is a mechanism's own.

    Args:
        game: two worlds that differ in one unit, and a claim.
        trials: in each world; by default the game's own number.
        confidence: that the lower bound holds.
        noise: of the mechanism; by default the operating system.
    """
    scores = game.play(game.trials if trials is None else trials, noise or Noise())
    return game.compute_evidence(scores, confidence=confidence)


AUDIT_COLUMNS = (
    *("game", "claim", "evidence: at least", "so many show at most", "trials a world"),
    *("verdict", "assumes"),
)
Played = Mapping[str, tuple[Claim, Evidence]]  # claim and evidence of each game, by name


def make_noise_game(epsilon: float, trials: int) -> Game:
    """The worst case of Gaussian noise on a frame."""
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=epsilon, delta=1e-5, unit="frame", low=0.0, high=1.0
    )
    return MechanismGame(mechanism=mechanism, trials=trials)


def make_short_games() -> dict[str, Game]:
    """Every kind of claim that can be played in seconds, by name."""
    return {
        "gaussian_noise, epsilon 8": make_noise_game(8.0, 4_000),
        "gnmax_votes": GnmaxVotes(),
        "gumbel_votes": GumbelVotes(),
        "confident_votes": ConfidentVotes(trials=4_000),
        "video_dprp_value, published": VideoDprpValue(),
        "video_dprp_value, sound": VideoDprpValue(form="sound"),
        "mask_dp_batches, published": MaskDpBatches(),
        "mask_dp_batches, revealed": MaskDpBatches(form="revealed"),
        "mask_dp_batches, sound": MaskDpBatches(form="sound"),
        "tempdiff_votes, published": TempdiffVotes(),
        "tempdiff_votes, sound": TempdiffVotes(form="sound"),
    }


def play_games(
    chosen: Mapping[str, Game],
    progress: ProgressCallback = lambda what, done, total: None,
    *,
    confidence: float = 0.95,
) -> Played:
    """Claim and evidence of each game."""
    found = {}
    for name, game in chosen.items():
        found[name] = game.claim(), audit_game(game, confidence=confidence)
        progress("audits", len(found), len(chosen))
    return found


def list_audit_rows(played: Played) -> list[tuple[str, ...]]:
    """A line for each game, as `AUDIT_COLUMNS` has it."""
    rows: list[tuple[str, ...]] = []
    for name, (claim, evidence) in played.items():
        verdict = evidence.describe_verdict(claim.epsilon).partition(":")[0].partition(".")[0]
        amount = f"({format_rounded_up(claim.epsilon)}, {format_rounded_up(claim.delta)})"
        claimed = f"{amount} for one {claim.unit}: {claim.source}"
        measured = format_rounded_down(evidence.epsilon_at_least, 4)
        most = "-" if evidence.most is None else format_rounded_down(evidence.most, 4)
        trials = str(evidence.trials)
        rows.append((name, claimed, measured, most, trials, verdict, evidence.assumes))
    return rows


_BOUND_NAMES = {  # how each is called in a line
    "curve": "whole curve",
    "coins": "coins alone",
    "independent": "as independent trials",
}
_MIN_UNITS = 48  # units, of which a quarter are films
_MAX_SUBSPACE_CANARIES = 500  # canaries of a subspace, which has a direction for each
_NO_RECORDING_NOTE = (
    "No private recording was read and no ledger charged; the model was thrown away."
)


class SampledRun(TypedDict):
    """What a bound by Poisson-sampled steps is told."""

    sampling_prob: float
    steps: int
    relation: Relation
    delta: float
    confidence: float


@dataclass(frozen=True, kw_only=True)
class Claimant:
    """What is audited.

    Args:
        method: how it learns.
        units: that it has, if they are known.
        network: what learns.
    """

    method: Method | Ensemble
    units: int | None = None
    network: Network = field(default_factory=MvitSmall)


def make_method_claimant(name: str, *, epsilon: float | None, form: str | None) -> Claimant:
    """A method of that name, with its usual settings but for those given."""
    usual = make_method(name, epsilon=8.0, unit="subject")
    unit = "video" if isinstance(usual, Method) else "subject"
    target = epsilon if epsilon is not None else 8.0 if isinstance(usual, Method) else 2.0
    given = {} if form is None else {"form": form}
    if given and not hasattr(usual, "form"):
        raise ValueError("Expected no --form for this method: it has one only.")
    return Claimant(method=make_method(name, epsilon=target, unit=unit, **given))


def make_model_claimant(path: Path) -> Claimant:
    """The method that a model's receipt tells of, with as many units and the same network.

    Raises:
        BadInput: if file and receipt do not agree, or it promises nothing.
    """
    receipt = check_receipt(path)
    if receipt.guarantee.epsilon is None:
        raise BadInput(f"Expected a model with a claim to put to the test, got {path.name}.")
    promise = make_promise(receipt)
    method = promise.method if isinstance(promise, PromiseWithPublic) else promise
    if isinstance(method, Ensemble):
        return Claimant(method=method)
    if not isinstance(method, Method):
        raise BadInput(f"Expected a model (.safetensors), got {path.name}; audit its mechanism.")
    network = make_described_network(read_model_fields(path))
    if network.KIND is not Medium.VIDEOS:
        raise BadInput(
            f"Expected a network for videos, got {network.name}: its gradients have a way of their "
            "own, beside which no canary can be planted. Audit its method by name."
        )
    if not network.HAS_WEIGHTS:  # whatever it begins with is public
        network = replace(network, weights=None, from_scratch=True)  # type: ignore[type-var]
    return Claimant(method=method, units=receipt.shapes[0][0], network=network)


def make_claim(method: Method, sung: CanaryRun) -> Claim:
    """What the method promises for that many units; of a published form, what its paper does."""
    plan = sung.plan
    is_published = method.is_batch_shared  # whose paper takes the batch to be secret
    return Claim(
        epsilon=method.epsilon if is_published else plan.compute_epsilon(method.target_relation),
        delta=plan.delta,
        unit=f"{method.unit}, {method.target_relation.value}",
        source=f"{method.name}{', as published' if is_published else ''}: {plan.sampler.units} "
        f"units, {plan.steps} steps, noise multiplier {plan.noise_multiplier:.4g}",
    )


def measure_evidence(
    runs: Sequence[CanaryRun], method: Method, *, confidence: float
) -> dict[str, dict[str, Evidence]]:
    """Every bound on what every attack showed in all runs, each at that confidence by itself."""
    each = confidence_each(confidence, runs=len(runs))
    one_by_one = [_measure_run_evidence(sung, method, confidence=each) for sung in runs]
    return {
        attack: {
            bound: choose_smallest_bound(
                [one[attack][bound] for one in one_by_one], confidence=confidence
            )
            for bound in bounds
        }
        for attack, bounds in one_by_one[0].items()
    }


def _measure_run_evidence(
    sung: CanaryRun, method: Method, *, confidence: float
) -> dict[str, dict[str, Evidence]]:
    delta, found = sung.plan.delta, dict[str, dict[str, Evidence]]()
    run: SampledRun = {
        "sampling_prob": sung.plan.sampler.sampling_prob,
        "steps": sung.plan.steps,
        "relation": method.target_relation,
        "delta": delta,
        "confidence": confidence,
    }
    for name, scores in sung.scores.items():
        found[name] = {
            "curve": one_run_poisson(scores, **run),
            "coins": one_run_coins(scores, delta=delta, confidence=confidence),
        }
    found["planted"]["independent"] = poisson_tradeoff(sung.scores["planted"], **run)
    return found


def audit_claimant(
    claimant: Claimant,
    *,
    canaries: int,
    films: int,
    repeats: int = 1,
    confidence: float = 0.95,
    tell: ProgressCallback = lambda what, done, total: None,
) -> tuple[Claim, dict[str, dict[str, Evidence]]]:
    """Claim and evidence: one training run with canaries, or several.

    Args:
        claimant: what is audited.
        canaries: that are planted; fewer where there are fewer units.
        films: that are canaries too.
        repeats: runs, each with coins of its own.
        confidence: of each bound.
        tell: called with what is done, how far, and of how much.
    """
    method = claimant.method
    if not isinstance(method, Method) or not method.HAS_PRIVATE:
        raise ValueError(f"Expected a method that learns with noise, got {method.name}.")
    method = replace(method, class_weights=())  # which change no promise
    films = 0 if method.is_batch_shared or method.HAS_SUBSPACE else films
    canaries = min(canaries, _MAX_SUBSPACE_CANARIES) if method.HAS_SUBSPACE else canaries
    if claimant.units is not None:
        if claimant.units < _MIN_UNITS:
            raise ValueError(
                f"Expected at least {_MIN_UNITS} units, got {claimant.units}: so few coins tell "
                "nothing. Audit the method by its name."
            )
        films = min(films, claimant.units // 4)
        canaries = min(canaries, claimant.units - films)
    films = films if films >= _MIN_UNITS // 4 else 0
    flock = canary_runs.CanarySet(
        planted=canaries,
        films=canary_runs.MadeUpFilms(count=films) if films else None,
        units=claimant.units,
    )
    sung = canary_runs.repeat_canaries(
        method, flock, runs=repeats, network=claimant.network, tell=tell
    )
    return make_claim(method, sung[0]), measure_evidence(sung, method, confidence=confidence)


def format_audit(
    name: str,
    claim: Claim,
    evidence: Mapping[str, Mapping[str, Evidence]],
    *,
    canaries: int,
    repeats: int,
) -> CommandResult:
    """What the command line prints; the bound that decides is fixed beforehand.

    It is the one by the whole curve, of planted canaries: it holds although they share a run.
    """
    _check.count(canaries=canaries, repeats=repeats)
    deciding = evidence["planted"]["curve"]
    is_refuted = deciding.refutes(claim.epsilon)
    lines = [
        f"Claim:    epsilon {format_rounded_up(claim.epsilon)} at delta "
        f"{format_rounded_up(claim.delta)} for one "
        f"{claim.unit} ({claim.source})",
        f"Evidence: epsilon is at least {format_rounded_down(deciding.epsilon_at_least, 4)} with "
        f"confidence {deciding.confidence:g} ({_format_runs(repeats)}, {deciding.attack}); "
        f"{deciding.limit_words}",
        f"Assumes:  {deciding.assumes}",
    ]
    for bounds in evidence.values():
        said = [
            f"{_BOUND_NAMES[bound]} {format_rounded_down(found.epsilon_at_least, 4)}"
            for bound, found in bounds.items()
        ]
        attack = next(iter(bounds.values())).attack
        lines.append(f"  {attack}: {', '.join(said)}")
    return CommandResult(
        data={
            "game": name,
            "claim": _json.encode_noun(claim),
            "evidence": _json.encode_noun(deciding),
            "all_evidence": {key: _json.encode_noun(dict(each)) for key, each in evidence.items()},
            "canaries": canaries,
            "repeats": repeats,
            "is_private": False,
            "refuted": is_refuted,
        },
        lines=[*lines, _NO_RECORDING_NOTE, deciding.describe_verdict(claim.epsilon)],
        exit_code=5 if is_refuted else 0,
    )


def _format_runs(repeats: int) -> str:
    return "one run" if repeats == 1 else f"the least of {repeats} runs"
