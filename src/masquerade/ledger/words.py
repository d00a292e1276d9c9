"""What a ledger says, in words."""

from __future__ import annotations

from typing import Any

from masquerade._formatting import format_count, format_rounded_up, round_up_decimals
from masquerade.accounting import compute_epsilon
from masquerade.events import ComposedDpEvent, SelfComposedDpEvent
from masquerade.ledger.book import Account, AccountBook


def make_summary(book: AccountBook, account: Account, unlinked: set[str]) -> dict[str, Any]:
    """What is left of an account, for machines.

    Args:
        book: what the entries say.
        account: which.
        unlinked: members that an earlier version made and nobody has seen since.
    """
    holders, spent = sorted(book.members_by_holder(account.name)), book.cost_by_payer
    least = max(holders, key=lambda each: spent.get((account.name, each), 0), default=None)
    allowance = account.cap.allowance
    remaining = allowance if least is None else book.remaining_budget(account, least)
    event = None if least is None else book.find_last_event(account, least)
    last = None if event is None else account.cap.price_event(event)
    return {
        "account": account.name,
        "unit": str(account.unit),
        "relation": account.cap.relation.value,
        "epsilon": account.cap.epsilon,
        "delta": account.cap.delta,
        "holders": len(holders),
        "unlinked": len(list_unlinked(book, unlinked, account.name)),
        "releases_of_the_busiest": 0 if least is None else book.count_charges(account, least),
        "left_share": max(remaining, 0) / allowance,
        "epsilon_that_fits": int(account.cap.find_fitting_epsilon(remaining) * 1e4) / 1e4,
        "more_like_the_last": None if not last else max(remaining, 0) // last,
        "fixed_list_epsilon": 0.0 if least is None else _epsilon_in_advance(book, account, least),
        "one_person": [
            names for names in book.list_spellings(account.name).values() if len(names) > 1
        ],
    }


def _epsilon_in_advance(book: AccountBook, account: Account, holder: str) -> float | None:
    """What a holder's list costs, had it been chosen in advance; it decides nothing."""
    kinds = book.list_event_kinds(account, holder)
    if kinds is None:
        return None
    fixed = ComposedDpEvent([SelfComposedDpEvent(event, count) for event, count in kinds])
    cost = compute_epsilon(fixed, delta=account.cap.delta, relation=account.cap.relation)
    return round_up_decimals(cost)


def format_summary(summary: dict[str, Any]) -> list[str]:
    """A summary in words."""
    more = summary["more_like_the_last"]
    like = "" if more is None else f": about {more} more releases like the last one"
    lines = [
        f"{summary['account']}: epsilon {summary['epsilon']:g} and delta {summary['delta']:g} for "
        f"each {summary['unit']} ({summary['relation']}), "
        f"{format_count(summary['holders'], 'holder')}.",
        f"  The one that spent most has {100 * summary['left_share']:.1f} % left{like}.",
        f"  A single release of epsilon {summary['epsilon_that_fits']:g} would still fit.",
    ]
    if more is not None and summary["fixed_list_epsilon"] is None:
        lines.append(
            f"  Its {summary['releases_of_the_busiest']} releases are of too many kinds to say "
            "what they cost, had the list been fixed in advance."
        )
    elif more is not None:
        lines.append(
            f"  Cost of its {summary['releases_of_the_busiest']} releases, had the list been fixed "
            f"in advance: epsilon {format_rounded_up(summary['fixed_list_epsilon'])}."
        )
    if summary["unlinked"]:
        lines.append(f"  {format_unlinked(summary['unlinked'])}")
    lines += [
        f"  {', '.join(names)}: one person, who pays for all." for names in summary["one_person"]
    ]
    return lines


def list_unlinked(book: AccountBook, unlinked: set[str], account: str) -> set[str]:
    """Those of the unlinked members that are in an account."""
    return unlinked & set().union(*book.members_by_holder(account).values())


def format_unlinked(count: int) -> str:
    """What to do about members that an earlier version made."""
    return (
        f"{format_count(count, 'recording')} of an earlier version, not seen since: in another "
        "form the "
        "same could come in again and be charged apart. Add the files once more."
    )


def format_gist(payload: dict[str, Any]) -> str:
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
