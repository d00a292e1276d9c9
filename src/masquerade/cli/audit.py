"""Put a claimed epsilon to the test: claim and evidence side by side."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from masquerade import _check, _json
from masquerade._formatting import shown, shown_below
from masquerade.audits.bounds import flawless
from masquerade.audits.game import Game, MechanismGame
from masquerade.cli.flags import Positional
from masquerade.progress import bars, teller, waiting
from masquerade.publish.audits import _METHODS, audit_game, find_game, games
from masquerade.result import Answer
from masquerade.scores import Evidence
from masquerade.training.ensemble import Ensemble

Entry = TypeVar("Entry")
_MODEL = ".safetensors"
_FEASIBLE = 10**6  # trials in each world


def find_trials(game: Game, evidence: Evidence) -> int | None:
    """Trials in each world that could refute the game's claim, were each decided rightly.

    Twice, four times, ... as many as were played; None where a million could not.
    """
    claim, trials = game.claim().epsilon, evidence.trials
    while (trials := 2 * trials) <= _FEASIBLE:
        best = flawless(trials, trials)
        if game.evidence(best, confidence=evidence.confidence).refutes(claim):
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

    def run(self) -> Answer:
        """Play it."""
        if not self.name:
            raise ValueError(f"Expected a game; choose from {', '.join((*games(), *_METHODS))}.")
        if self.name in _METHODS or self.name.endswith(_MODEL):
            return self._by_canaries()
        if self.epsilon is not None:
            raise ValueError("Expected no --epsilon for this game: it has its own.")
        return self._played(find_game(self.name))

    def _by_canaries(self) -> Answer:
        """Train once more, with canaries; votes are played like any game."""
        from masquerade.audits.vote_games import VoteCanary
        from masquerade.publish import audits as canary_audit  # only this needs torch

        if self.name in _METHODS:
            found = canary_audit.of_method(self.name, epsilon=self.epsilon, form=self.form)
        elif self.epsilon is not None or self.form is not None:
            raise ValueError("Expected no --epsilon and no --form with a model: it has its own.")
        else:
            found = canary_audit.of_model(Path(self.name))
        if isinstance(found.method, Ensemble):
            return self._played(VoteCanary(method=found.method))
        with bars() as progress:
            claim, evidence = canary_audit.audited(
                found,
                canaries=self.canaries,
                films=self.films,
                repeats=self.repeats,
                confidence=self.confidence,
                tell=teller(progress),
            )
        planted = evidence["planted"]["curve"]
        return canary_audit.answer(
            self.name,
            claim,
            evidence,
            canaries=2 * planted.trials,
            repeats=self.repeats,
        )

    def _played(self, game: Game) -> Answer:
        if self.form is not None and self.name not in _METHODS:
            game = in_form(game, self.form)
        if isinstance(game, MechanismGame):
            game = dataclasses.replace(game, sees=self.sees)
            is_published = game.guarantee.published_claim is not None
            if is_published and self.sees == "video":
                game = dataclasses.replace(game, trials=60_000)  # what refuting 8 takes
        claim = game.claim()
        with waiting(f"playing {self.name}", seconds=0.0):
            evidence = audit_game(game, trials=self.trials, confidence=self.confidence)
        is_refuted, verdict = evidence.refutes(claim.epsilon), evidence.verdict(claim.epsilon)
        if not evidence.can_refute(claim.epsilon):
            needed = find_trials(game, evidence)
            verdict += f" Give --trials {needed}." if needed else " Nor could a million trials."
        return Answer(
            data={
                "game": self.name,
                "claim": _json.encode(claim),
                "evidence": _json.encode(evidence),
                "refuted": is_refuted,
                "can_refute": evidence.can_refute(claim.epsilon),
            },
            lines=[
                f"Claim:    epsilon {shown(claim.epsilon)} at delta {shown(claim.delta)} for one "
                f"{claim.unit} ({claim.source})",
                f"Evidence: epsilon is at least {shown_below(evidence.epsilon_at_least, 4)} with "
                f"confidence {evidence.confidence:g} ({evidence.trials} trials a world, "
                f"{evidence.attack}); {evidence.limit}",
                f"Assumes:  {evidence.assumes}",
                verdict,
            ],
            exit_code=5 if is_refuted else 0,
        )


def in_form(game: Game, form: str) -> Game:
    """The same game, or the mechanism that is played, in another form."""
    if isinstance(game, MechanismGame):
        return dataclasses.replace(game, mechanism=_formed(game.mechanism, form))
    return _formed(game, form)


def _formed(entry: Entry, form: str) -> Entry:
    hints = typing.get_type_hints(type(entry))
    choices = typing.get_args(hints.get("form", None))
    if not choices:
        raise ValueError("Expected no --form for this game: it has one only.")
    if form not in choices:
        raise ValueError(_check.unknown("form", form, choices))
    changed: Entry = dataclasses.replace(entry, form=form)  # type: ignore[type-var]
    return changed


COMMAND = Audit
