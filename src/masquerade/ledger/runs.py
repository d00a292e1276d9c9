"""What a training run costs everyone whose recordings it learns from.

A run has units of its own: recordings, or people with several of theirs. A holder of an account
pays for as many of those units as its recordings are in, as a group (`account.group`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade.accounting.group import group_event
from masquerade.errors import BadInput
from masquerade.events import DpEvent, event_from_json, event_to_json
from masquerade.guarantee import Relation
from masquerade.ledger.book import PUBLIC, WHOLE, Account, AccountBook
from masquerade.ledger.content import Content
from masquerade.ledger.desk import OpenLedger
from masquerade.ledger.store import LedgerEntry

NEW_FIELDS = ("first_weights", "class_source")  # in words, of what was public before as well


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run before it begins.

    Args:
        run_id: random; a run that is taken up again is known by it.
        method: its name.
        fields: its public fields, as the receipt will have them.
        events: what it costs one of its units, for accounts of each relation.
        public: what of each recording it uses without noise: nothing, people, background, or
            features.
        contents: of its recordings.
        masks: a hash of each recording's mask, or of the rule that makes its features, which says
            what is public in it; empty where nothing is.
        units: the unit that each recording is in.
    """

    run_id: str
    method: str
    fields: dict[str, Any]
    events: Mapping[Relation, DpEvent]
    public: str = PUBLIC[0]
    contents: tuple[Content, ...]
    masks: tuple[bytes, ...] = ()
    units: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.contents) != len(self.units) or not self.units:
            raise ValueError(
                f"Expected a unit for each of {len(self.contents)} recordings, got "
                f"{len(self.units)}."
            )
        has_masks = len(self.masks) == len(self.contents) and all(self.masks)
        if self.public != PUBLIC[0] and not has_masks:
            raise BadInput(
                f"Expected a person mask with every recording where {self.public} is used without "
                "noise, got one without."
            )


def make_run_payload(desk: OpenLedger, run: Run) -> dict[str, Any]:
    """The entry that charges everyone, if all of it fits.

    Raises:
        BadInput: if a recording is in no account.
        BudgetExceeded: if somebody cannot afford it.
        ValueError: if an account's unit, relation or public part is not one that a run can charge,
            or if more of a recording would be public than was before.
    """
    told, book = _describe_run(desk, run), desk.book
    held = _list_places_by_payer(book, told["members"])
    if told["masks"]:
        _check_masks([update_run_members(book, payload) for payload in desk.runs], told)
    charges: list[dict[str, Any]] = []
    for (name, holder), places in held.items():
        account = book.accounts[name]
        charges += book.charge_events(account, holder, [_run_event_for(told, account, places)])
    return told | {"charges": charges}


def find_charged_run(desk: OpenLedger, run: Run) -> LedgerEntry | None:
    """The entry of this very run, if it was charged before; it is not charged again.

    Raises:
        BadInput: if another run has its name, or if it has its output already.
    """
    entry = desk.session.read_entry(desk.book.find_run(run.run_id) or 0)
    if entry is None:
        return None
    told, held = _describe_run(desk, run), entry.payload
    is_same = is_same_fields(held["fields"], told.pop("fields"))
    is_same = is_same and all(held[key] == value for key, value in told.items())
    if not is_same or desk.book.find_output(entry.sequence) is not None:
        raise BadInput(
            "Expected to go on with the run that was charged, got other recordings or "
            "settings, or a run that has ended; choose another output."
        )
    return entry


def is_same_fields(held: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether these are the fields of an entry, which an earlier version may have had fewer of."""
    known = {key: value for key, value in fields.items() if key in held or key not in NEW_FIELDS}
    return dict(held) == known


def update_run_members(book: AccountBook, payload: dict[str, Any]) -> dict[str, Any]:
    """A run with the members that its recordings belong to now."""
    return payload | {
        "members": [book.find_current_member(member) for member in payload["members"]]
    }


def find_earlier_event(
    payload: dict[str, Any], account: Account, before: set[str], after: set[str]
) -> DpEvent | None:
    """What a run before cost a holder to whom members are added; None if nothing new.

    What the holder paid for the same run before is not taken off: a group's cost is no sum.

    Args:
        payload: of the run.
        account: that they are added to.
        before: members that the holder had.
        after: members that the holder has now.
    """

    def list_places(of: set[str]) -> set[int]:
        return {place for place, found in enumerate(payload["members"]) if found in of}

    units, mine = payload["units"], list_places(after)
    if {units[place] for place in list_places(before)} == {units[place] for place in mine}:
        return None
    return _run_event_for(payload, account, mine)


def _check_masks(earlier: Iterable[dict[str, Any]], told: dict[str, Any]) -> None:
    """What is public of some footage is one content of it under one mask, for ever.

    Two masks of one recording could together show all of it. Of two contents of the same footage (a
    trim, a re-encode, a second camera) nobody can say which pixels are the same, so that equal
    masks could do it too.
    """
    known: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for payload in (*earlier, told):
        if payload.get("masks"):
            parts = zip(payload["members"], payload["tokens"], payload["masks"], strict=True)
            for member, token, mark in parts:
                known[member].add((token, mark))
    changed = sum(len(known[member]) > 1 for member in set(told["members"]))
    if changed:
        raise ValueError(
            f"Expected one file and one mask for ever where a part of the footage is public, got "
            f"other ones for {changed} recordings: what is private in one would be used without "
            "noise in the other. Use the file and the mask of the first run for each (of files "
            "added with --same-as, one), or a method without a public part."
        )


def _describe_run(desk: OpenLedger, run: Run) -> dict[str, Any]:
    """What a run is, as the ledger keeps it."""
    return {
        "mechanism": run.method,
        "fields": run.fields,
        "run": run.run_id,
        "public": run.public,
        "events": {str(name): event_to_json(event) for name, event in run.events.items()},
        "members": [desk.find_content_member(found) for found in run.contents],
        "tokens": [desk.find_token(found) for found in run.contents],
        "masks": [desk.session.hash_value(mask) for mask in run.masks]
        if run.public != PUBLIC[0]
        else [],
        "units": list(run.units),
    }


def _list_places_by_payer(
    book: AccountBook, members: Sequence[str | None]
) -> dict[tuple[str, str], set[int]]:
    """(account, holder) to the places of their recordings; every recording is somebody's."""
    accounts = [{} if member is None else book.list_accounts_of(member) for member in members]
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    strangers = sum(not held for held in accounts)
    if strangers:
        raise BadInput(
            f"Expected every recording in an account of this ledger, got {strangers} of "
            f"{len(members)} that are in none; add them first with: masquerade ledger enroll"
        )
    for place, held in enumerate(accounts):
        for name, holders in held.items():
            for holder in holders:
                found[name, holder].add(place)
    return found


def _run_event_for(told: dict[str, Any], account: Account, places: set[int]) -> DpEvent:
    """The run as a holder of the recordings at these places feels it."""
    if told["public"] not in (PUBLIC[0], account.public):
        raise ValueError(
            f"Expected an account in which {told['public']} are public, got {account.name}, in "
            f"which {account.public} is: what {told['mechanism']} uses without noise would not be "
            f"paid for. Open one with: ledger open --public {told['public']}"
        )
    units = told["units"]
    mine = {units[place] for place in places}
    if account.cap.relation is Relation.ZERO_OUT:
        is_whole = {place for place, unit in enumerate(units) if unit in mine} == places
        if account.unit.name not in WHOLE or not is_whole:
            raise ValueError(
                f"Expected the account {account.name} to be opened with replace_one: a run knows "
                "zero_out only as a unit of it that is absent, and this account's holders are "
                "parts of one."
            )
    event = event_from_json(told["events"][str(account.cap.relation)])
    return group_event(event, len(mine))
