"""Put a claimed epsilon to the test: claim and evidence side by side."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from masquerade import _check, _json
from masquerade._formatting import format_rounded_down, format_rounded_up
from masquerade.audits.bounds import make_flawless_scores
from masquerade.audits.game import Game, MechanismGame
from masquerade.cli.flags import Positional
from masquerade.progress import make_progress_bars, make_reporter, show_spinner
from masquerade.publish.audits import _CANARY_METHODS, audit_game, find_game, list_games
from masquerade.result import CommandResult
from masquerade.scores import Evidence
from masquerade.training.ensemble import Ensemble

Entry = TypeVar("Entry")
_MODEL_SUFFIX = ".safetensors"
_MAX_TRIALS = 10**6  # trials in each world


def find_trials(game: Game, evidence: Evidence) -> int | None:
    """Trials in each world that could refute the game's claim, were each decided rightly.

    Twice, four times, ... as many as were played; None where a million could not.
    """
    claim, trials = game.claim().epsilon, evidence.trials
    while (trials := 2 * trials) <= _MAX_TRIALS:
        best = make_flawless_scores(trials, trials)
        if game.compute_evidence(best, confidence=evidence.confidence).refutes(claim):
            return trials
    return None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Play a game, or train once with canaries; exits with 5 when the evidence exceeds the claim.

    Args:
        name: a mechanism, a game of the audit room, a method of training, or a model that was
            trained (its receipt beside it); left out, they are listed.
        trials: in each world; by default enough to see most of the claim.
        confidence: that the lower bound holds.
        form: for games and mechanisms that have several (published, sound, as_published, ...).
        sees: video, to let the attacker see a mechanism's released frames alone.
        canaries: for methods and models: planted in one run; more show more of the claim. At most
            500 for methods that learn in a subspace.
        films: for methods and models: canaries that are films, which show what a last model tells.
        repeats: for methods and models: runs, of which the least counts, at more doubt each; more
            show more of the claim, five most of what can be shown.
        epsilon: for methods: of the claim, by default 8, and 2 for votes.
    """

    name: Positional[str] = ""
    trials: int | None = None
    confidence: float = 0.95
    form: str | None = None
    sees: Literal["numbers", "video"] = "numbers"
    canaries: int = 2000
    films: int = 200
    repeats: int = 1
    epsilon: float | None = None

    def __post_init__(self) -> None:
        _check.delta(confidence=self.confidence)
        _check.count(canaries=self.canaries, repeats=self.repeats)
        _check.not_negative(films=self.films)
        if self.trials is not None:
            _check.count(trials=self.trials)

    def run(self) -> CommandResult:
        """Play it."""
        if not self.name:
            raise ValueError(
                f"Expected a game; choose from {', '.join((*list_games(), *_CANARY_METHODS))}."
            )
        if self.name in _CANARY_METHODS or self.name.endswith(_MODEL_SUFFIX):
            return self._by_canaries()
        if self.epsilon is not None:
            raise ValueError("Expected no --epsilon for this game: it has its own.")
        return self._play_game(find_game(self.name))

    def _by_canaries(self) -> CommandResult:
        """Train once more, with canaries; votes are played like any game."""
        from masquerade.audits.vote_games import VoteCanary
        from masquerade.publish import audits as canary_audit  # only this needs torch

        if self.name in _CANARY_METHODS:
            found = canary_audit.make_method_claimant(
                self.name, epsilon=self.epsilon, form=self.form
            )
        elif self.epsilon is not None or self.form is not None:
            raise ValueError("Expected no --epsilon and no --form with a model: it has its own.")
        else:
            found = canary_audit.make_model_claimant(Path(self.name))
        if isinstance(found.method, Ensemble):
            return self._play_game(VoteCanary(method=found.method))
        with make_progress_bars() as progress:
            claim, evidence = canary_audit.audit_claimant(
                found,
                canaries=self.canaries,
                films=self.films,
                repeats=self.repeats,
                confidence=self.confidence,
                tell=make_reporter(progress),
            )
        planted = evidence["planted"]["curve"]
        return canary_audit.format_audit(
            self.name,
            claim,
            evidence,
            canaries=2 * planted.trials,
            repeats=self.repeats,
        )

    def _play_game(self, game: Game) -> CommandResult:
        if self.form is not None and self.name not in _CANARY_METHODS:
            game = replace_forms(game, self.form)
        if isinstance(game, MechanismGame):
            game = dataclasses.replace(game, sees=self.sees)
            is_published = game.guarantee.published_claim is not None
            if is_published and self.sees == "video":
                game = dataclasses.replace(game, trials=60_000)  # what refuting 8 takes
        claim = game.claim()
        with show_spinner(f"playing {self.name}", seconds=0.0):
            evidence = audit_game(game, trials=self.trials, confidence=self.confidence)
        is_refuted, verdict = (
            evidence.refutes(claim.epsilon),
            evidence.describe_verdict(claim.epsilon),
        )
        if not evidence.can_refute(claim.epsilon):
            needed = find_trials(game, evidence)
            verdict += f" Give --trials {needed}." if needed else " Nor could a million trials."
        return CommandResult(
            data={
                "game": self.name,
                "claim": _json.encode_noun(claim),
                "evidence": _json.encode_noun(evidence),
                "refuted": is_refuted,
                "can_refute": evidence.can_refute(claim.epsilon),
            },
            lines=[
                f"Claim:    epsilon {format_rounded_up(claim.epsilon)} at delta "
                f"{format_rounded_up(claim.delta)} for one "
                f"{claim.unit} ({claim.source})",
                "Evidence: epsilon is at least "
                f"{format_rounded_down(evidence.epsilon_at_least, 4)} with "
                f"confidence {evidence.confidence:g} ({evidence.trials} trials a world, "
                f"{evidence.attack}); {evidence.limit_words}",
                f"Assumes:  {evidence.assumes}",
                verdict,
            ],
            exit_code=5 if is_refuted else 0,
        )


def replace_forms(game: Game, form: str) -> Game:
    """The same game, or the mechanism that is played, in another form."""
    if isinstance(game, MechanismGame):
        return dataclasses.replace(game, mechanism=_replace_form(game.mechanism, form))
    return _replace_form(game, form)


def _replace_form(entry: Entry, form: str) -> Entry:
    hints = typing.get_type_hints(type(entry))
    choices = typing.get_args(hints.get("form", None))
    if not choices:
        raise ValueError("Expected no --form for this game: it has one only.")
    if form not in choices:
        raise ValueError(_check.describe_unknown("form", form, choices))
    changed: Entry = dataclasses.replace(entry, form=form)  # type: ignore[type-var]
    return changed


COMMAND = Audit
