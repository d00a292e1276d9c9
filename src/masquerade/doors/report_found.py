"""What was found out about a release, as sections of its page: attacks, audits, the budget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from masquerade import _json, catalog
from masquerade._round import shown, shown_below
from masquerade.audit.game import Claim, MechanismGame
from masquerade.doors.audit import audit_game
from masquerade.doors.receipt import promise_of
from masquerade.errors import BadInput
from masquerade.ledger import Ledger, words
from masquerade.receipt import Receipt
from masquerade.report import attacked, claims, page
from masquerade.report.page import PagePart, Section
from masquerade.scores import Attacked, Evidence

Audited: TypeAlias = tuple[str, Claim, Evidence]  # which game, its claim, what was shown

_TRIALS = 4_000  # as `masquerade audit` plays a film's mechanism
_AUDITED = (
    "An audit plays the best attack that is known against the claim, on made-up data. What it "
    "shows is a lower bound: it can prove a claim wrong, and never right. The figures are epsilon, "
    "the measure of what may leak; smaller is safer."
)


def attacks(path: Path) -> Section:
    """What `masquerade attack --out` wrote.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = [_json.decode(Attacked, _bare(each)) for each in data["attackers"]]
        if not found:
            raise ValueError("it has no attacker")
        return attacked.section(str(data["attack"]), found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade attack --out at {path}; it cannot be one: {error}"
        ) from error


def _bare(said: dict[str, Any]) -> dict[str, Any]:
    """Without what follows from the rest."""
    return {key: value for key, value in said.items() if key not in ("verdict", "is_telling")}


def audited(path: Path) -> Audited:
    """What `masquerade audit NAME --json` printed: which game, its claim and the evidence.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        claim = _json.decode(Claim, data["claim"])
        return str(data["game"]), claim, _json.decode(Evidence, data["evidence"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade audit NAME --json at {path}; it cannot be one: "
            f"{error}"
        ) from error


def played(receipt: Receipt) -> Audited | None:
    """The receipt's own mechanism against its worst case; None where there is nothing to play."""
    if receipt.guarantee.epsilon is None or receipt.mechanism not in catalog.names("release"):
        return None
    game = MechanismGame(mechanism=promise_of(receipt), trials=_TRIALS)
    return receipt.mechanism, game.claim(), audit_game(game)


def audits(found: Sequence[Audited]) -> Section:
    """Claim and evidence beside each other."""
    parts = [page.paragraphs([_AUDITED])]
    for name, claim, evidence in found:
        drawn = claims.svg(claim.epsilon, evidence.epsilon_at_least)
        said = (
            f"Claim: epsilon {shown(claim.epsilon)} at delta {shown(claim.delta)} for one "
            f"{claim.unit} ({claim.source}). Evidence: at least "
            f"{shown_below(evidence.epsilon_at_least, 4)} with confidence "
            f"{evidence.confidence:g}, {evidence.trials} trials in each of two worlds, "
            f"{evidence.attack}; {evidence.limit}. {evidence.assumes}"
        )
        parts += [
            page.heading(f"{name}: {evidence.verdict(claim.epsilon)}"),
            page.captioned(drawn, ""),
            page.folded("The same, exactly", page.paragraphs([said])),
        ]
    return Section(title="Claim, and what an audit shows", body="".join(parts), part=PagePart.AUDIT)


def budget(place: str) -> Section:
    """What is left to spend; names of accounts are private."""
    said = [line for each in Ledger(place).summaries() for line in words.sentences(each)]
    first = "A budget caps what all releases of the same recordings may give away together."
    body = page.paragraphs([first]) + page.listing(said or ["No account is open."])
    return Section(title="The budget left", body=body, has_originals=True, part=PagePart.BUDGET)
