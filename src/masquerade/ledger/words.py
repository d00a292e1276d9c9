"""What a ledger says, in words."""

from __future__ import annotations

from typing import Any

from masquerade._printed import counted
from masquerade._round import shown, up_decimals
from masquerade.account import epsilon
from masquerade.events import ComposedDpEvent
from masquerade.ledger.book import Account, Book


def summary_of(book: Book, account: Account) -> dict[str, Any]:
    """What is left of an account, for machines."""
    holders = sorted(book.members_by_holder(account.name))
    left = {holder: book.left(account, holder) for holder in holders}
    least = min(holders, key=lambda holder: left[holder]) if holders else None
    remaining = account.cap.allowance if least is None else left[least]
    events = [] if least is None else book.events_of(account, least)
    last = account.cap.cost(events[-1]) if events else None
    fixed = ComposedDpEvent(events)  # had the list been chosen in advance; it decides nothing
    spelled = [names for (name, _), names in book.names.items() if name == account.name]
    cost = epsilon(fixed, delta=account.cap.delta, relation=account.cap.relation) if least else 0.0
    return {
        "account": account.name,
        "unit": str(account.unit),
        "relation": account.cap.relation.value,
        "epsilon": account.cap.epsilon,
        "delta": account.cap.delta,
        "holders": len(holders),
        "releases_of_the_busiest": len(events),
        "left_share": max(remaining, 0) / account.cap.allowance,
        "epsilon_that_fits": int(account.cap.epsilon_that_fits(remaining) * 1e4) / 1e4,
        "more_like_the_last": None if not last else max(remaining, 0) // last,
        "fixed_list_epsilon": up_decimals(cost),
        "one_person": [names for names in spelled if len(names) > 1],  # old entries have some
    }


def sentences(summary: dict[str, Any]) -> list[str]:
    """A summary in words."""
    more = summary["more_like_the_last"]
    like = "" if more is None else f": about {more} more releases like the last one"
    lines = [
        f"{summary['account']}: epsilon {summary['epsilon']:g} and delta {summary['delta']:g} for "
        f"each {summary['unit']} ({summary['relation']}), {counted(summary['holders'], 'holder')}.",
        f"  The one that spent most has {100 * summary['left_share']:.1f} % left{like}.",
        f"  A single release of epsilon {summary['epsilon_that_fits']:g} would still fit.",
    ]
    if more is not None:
        lines.append(
            f"  Cost of its {summary['releases_of_the_busiest']} releases, had the list been fixed "
            f"in advance: epsilon {shown(summary['fixed_list_epsilon'])}."
        )
    lines += [
        f"  {', '.join(names)}: one person, who pays for all." for names in summary["one_person"]
    ]
    return lines


def gist(payload: dict[str, Any]) -> str:
    """An entry in a few words."""
    if "charges" in payload:
        to = ", ".join(f"{c['account']}/{c['holder']}" for c in payload["charges"])
        sound = ", with sound, which is not protected" * bool(payload.get("with_sound"))
        return f"{payload['mechanism']} charged to {to}{sound}"
    if "reservation" in payload:
        return f"output of entry {payload['reservation']} stands"
    if "before" in payload:
        return f"the clock was set back from {payload['before'][:19]}, and the steward accepts it"
    return str(payload.get("name") or f"{payload['holder']} into {payload['account']}")
