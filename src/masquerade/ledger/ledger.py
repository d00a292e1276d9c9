"""Open accounts, add files, reserve before a mechanism runs, settle after its output stands."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade import catalog
from masquerade._round import up_decimals
from masquerade.account import epsilon
from masquerade.errors import BadInput
from masquerade.events import ComposedDpEvent, DpEvent
from masquerade.guarantee import Relation, Unit
from masquerade.ledger import runs
from masquerade.ledger.book import PEOPLE, PUBLIC, Account, Book, Charge
from masquerade.ledger.content import Content
from masquerade.ledger.filter import Filter, FilterName, best_order
from masquerade.ledger.runs import Run
from masquerade.ledger.store import Entry, Session, Store
from masquerade.mechanism import Mechanism, Shapes, Value
from masquerade.receipt import Receipt


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A spend that is on disk; the mechanism may run now."""

    sequence: int
    head: str


class Ledger:
    """A ledger at a path or a PostgreSQL address.

    Example:
        >>> ledger = Ledger("budget.db")  # doctest: +SKIP
        >>> ledger.open_account(
        ...     "ward", Unit(name="frame"), epsilon=8, delta=1e-5
        ... )  # doctest: +SKIP
    """

    def __init__(self, address: str | Path) -> None:
        self._store = Store(address)

    def open_account(
        self,
        name: str,
        unit: Unit,
        *,
        epsilon: float,
        delta: float,
        relation: Relation = Relation.REPLACE_ONE,
        rule: FilterName = FilterName.GAUSSIAN,
        public: str = PUBLIC[0],
    ) -> Account:
        """Open an account; the ledger is made if there is none yet."""
        order = best_order(epsilon, delta) if rule is FilterName.RENYI else None
        cap = Filter(name=rule, epsilon=epsilon, delta=delta, relation=relation, order=order)
        account = Account(name=name, unit=unit, cap=cap, public=public)
        if account.cap.allowance <= 0:
            raise ValueError(
                f"Expected a cap that affords anything under the {rule.value} rule, got "
                f"epsilon={epsilon} and delta={delta}; raise one of them."
            )
        self._store.create()
        with self._store.session() as session:
            if name in Book.replay(session.entries).accounts:
                raise ValueError(f"Expected a new name, got {name!r}; such an account is open.")
            session.append("open", account.to_payload())
        return account

    def add(
        self,
        account: str,
        value: Value | Content,
        *,
        subject: str | None = None,
        same_as: Value | Content | None = None,
    ) -> str:
        """Put a file's content into an account and return its member.

        Args:
            account: the account's name.
            value: the decoded content.
            subject: whom it shows; needed where the unit is a subject or a shard. A file that
                shows several people is added once for each.
            same_as: content of a member that shows the same footage (a trim, a re-encode, a
                second camera); the two are charged as one.
        """
        with self._store.session() as session:
            book = Book.replay(session.entries)
            held = _account(book, account)
            member, token = _member(session, Content.of(value), same_as)
            _add(session, book, held, [(member, token, _holder(held, member, subject))])
            return member

    def add_all(self, account: str, recordings: Iterable[tuple[Content, str | None]]) -> list[str]:
        """Put many contents with their subjects into an account, all of them or none."""
        with self._store.session() as session:
            book = Book.replay(session.entries)
            held = _account(book, account)
            found = []
            for content, subject in recordings:
                member, token = _member(session, content, None)
                found.append((member, token, _holder(held, member, subject)))
            _add(session, book, held, found)
            return [member for member, _, _ in found]

    def quote(self, value: Value | Content, mechanism: Mechanism) -> None:
        """Raise what `reserve` would raise, and spend nothing."""
        with self._store.session() as session:
            _charges(session, Content.of(value), mechanism)

    def quote_all(
        self, asked: Iterable[tuple[Content, Mechanism, dict[str, Any]]]
    ) -> list[Exception | None]:
        """What `reserve` would raise for each, one after another; nothing is spent."""
        with self._store.session() as session:
            before = len(session.entries)
            try:
                return [_quoted(session, *each) for each in asked]
            finally:
                del session.entries[before:]

    def reserve(self, value: Value | Content, mechanism: Mechanism) -> Reservation:
        """Charge every account that holds this content, or none.

        Raises:
            BudgetExceeded: if one of them cannot afford it.
            BadInput: if no account holds it.
            ValueError: if the mechanism states no cost for an account's unit.
        """
        content = Content.of(value)
        with self._store.session() as session:
            member, charges = _charges(session, content, mechanism)
            entry = session.append(
                "reserve",
                {
                    "member": member,
                    "token": session.token_of(content.fingerprint),
                    "mechanism": mechanism.name,
                    "fields": mechanism.fields(),
                    "shapes": [list(shape) for shape in content.shapes],
                    "charges": [charge.to_payload() for charge in charges],
                },
            )
        return Reservation(sequence=entry.sequence, head=entry.head)

    def quote_run(self, run: Run) -> None:
        """Raise what `reserve_run` would raise, and spend nothing."""
        with self._store.session() as session:
            runs.payload_of(session, Book.replay(session.entries), run)

    def reserve_run(self, run: Run) -> Reservation:
        """Charge everyone whose recordings a run learns from, or nobody.

        A run that was charged before and has no output yet is taken up, not charged again.

        Raises:
            BudgetExceeded: if somebody cannot afford it.
            BadInput: if a recording is in no account.
            ValueError: if an account is of a kind that a run cannot charge.
        """
        with self._store.session() as session:
            book = Book.replay(session.entries)
            entry = runs.standing(session, book, run)
            if entry is None:
                entry = session.append("reserve", runs.payload_of(session, book, run))
        return Reservation(sequence=entry.sequence, head=entry.head)

    def settle(self, receipt: Receipt) -> None:
        """Record which output a reservation is for; saying it twice changes nothing.

        Raises:
            BadInput: if it has another output already.
        """
        with self._store.session() as session:
            known = Book.replay(session.entries).settled.get(receipt.ledger_sequence or 0)
            if known is not None and known != receipt.output_sha256:
                raise BadInput(
                    f"Expected entry {receipt.ledger_sequence} to have no output yet, got one that "
                    "has; one charge is good for one output. Nothing was published."
                )
            if known is None:
                payload = {
                    "reservation": receipt.ledger_sequence,
                    "output_sha256": receipt.output_sha256,
                }
                session.append("settle", payload)

    def vouches_for(self, receipt: Receipt, value: Value | Content) -> bool:
        """Whether a receipt's spend was recorded here, for this very content."""
        with self._store.session() as session:
            entry = _entry_of(session.entries, receipt)
            token = session.token_of(Content.of(value).fingerprint)
        return entry is not None and token is not None and entry.payload.get("token") == token

    def count_members(self, contents: Iterable[Content]) -> int:
        """How many of these are in an account, and so not to be used as if they were public."""
        with self._store.session() as session:
            return sum(session.member_of(each.fingerprint) is not None for each in contents)

    def entries(self) -> list[Entry]:
        """Everything that was written, verified."""
        with self._store.session() as session:
            return list(session.entries)

    def book(self) -> Book:
        """Everything that follows from it."""
        return Book.replay(self.entries())

    def strangers(self, receipts: list[Receipt]) -> list[Receipt]:
        """Receipts whose entry is missing, is another release, or has another output already."""
        entries, outputs = self.entries(), dict(self.book().settled)
        found = []
        for receipt in receipts:
            if receipt.ledger_sequence is None:
                continue
            digest = outputs.setdefault(receipt.ledger_sequence, receipt.output_sha256)
            if _entry_of(entries, receipt) is None or digest != receipt.output_sha256:
                found.append(receipt)
        return found


def fixed_list_epsilon(book: Book, account: Account, holder: str) -> float:
    """Epsilon of a holder's events, had the list been fixed in advance; it decides nothing."""
    events = ComposedDpEvent(book.events_of(account, holder))
    return up_decimals(epsilon(events, delta=account.cap.delta, relation=account.cap.relation))


def _account(book: Book, name: str) -> Account:
    if name not in book.accounts:
        listed = ", ".join(book.accounts) or "none is open"
        raise ValueError(f"Unknown account {name!r}; choose from {listed}.")
    return book.accounts[name]


def _member(session: Session, content: Content, same_as: Value | Content | None) -> tuple[str, str]:
    """The member of a content (its own, the one it is said to be, or a new one) and its token."""
    known = session.member_of(content.fingerprint)
    twin = None if same_as is None else session.member_of(Content.of(same_as).fingerprint)
    if same_as is not None and twin is None:
        raise ValueError("Expected the other file to be a member already; add it first.")
    if known is not None and twin is not None and known != twin:
        raise ValueError(
            "Expected a file that is not a member yet; both are members of their own already. Say "
            "what shows the same footage when a file is first added."
        )
    member = known or twin or secrets.token_hex(8)
    return member, session.remember(content.fingerprint, member)


def _entry_of(entries: list[Entry], receipt: Receipt) -> Entry | None:
    place = receipt.ledger_sequence or 0
    if not 1 <= place <= len(entries):
        return None
    entry = entries[place - 1]
    is_its = (
        entry.kind == "reserve"
        and entry.head == receipt.ledger_head
        and entry.payload["mechanism"] == receipt.mechanism
        and entry.payload["fields"] == receipt.fields
    )
    return entry if is_its else None


def _quoted(
    session: Session, content: Content, mechanism: Mechanism, how: dict[str, Any]
) -> Exception | None:
    """Why it cannot be reserved; if it can, the session remembers it and the disk does not."""
    try:
        charges = _charges(session, content, mechanism, **how)[1]
    except (ValueError, RuntimeError) as error:
        return error
    payload = {"charges": [charge.to_payload() for charge in charges]}
    session.entries.append(Entry(0, "", "reserve", payload, ""))
    return None


def _charges(session: Session, content: Content, mechanism: Mechanism) -> tuple[str, list[Charge]]:
    """Who is charged what for a release of this content; all of it fits."""
    book = Book.replay(session.entries)
    member = session.member_of(content.fingerprint)
    accounts = book.accounts_of(member) if member is not None else []
    if member is None or not accounts:
        raise BadInput(
            "Expected a file that is in an account of this ledger; add it first with: "
            "masquerade ledger add"
        )
    charges: list[Charge] = []
    for account in accounts:
        event = _event_for(mechanism, content.shapes, account)
        for holder in book.holders[account.name, member]:
            charges += book.charge(account, holder, [event])
    return member, charges


def _event_for(mechanism: Mechanism, shapes: Shapes, account: Account) -> DpEvent:
    event = mechanism.event_for(shapes, account.unit)
    if event is None:
        raise ValueError(
            f"Expected a mechanism that states its cost for {account.unit}, the unit of the "
            f"account {account.name}, got {mechanism.name}."
        )
    return event


def _holder(account: Account, member: str, subject: str | None) -> str:
    """Who pays for a member: whom it shows, or itself."""
    subject = None if subject is None else subject.strip()
    if (account.unit.name in PEOPLE) != bool(subject):
        raise ValueError(
            "Expected a subject exactly where the account's unit is a subject or a shard, "
            f"got unit={account.unit} and subject={subject!r}."
        )
    return subject or member


def _add(session: Session, book: Book, account: Account, given: list[tuple[str, str, str]]) -> None:
    """Write the entries that put (member, token, holder) into an account, with what is owed.

    What was released of a member before is charged with its entry; what runs cost a holder before,
    once, with the holder's last entry, for all that came together.
    """
    now = book.members_by_holder(account.name)
    had = {holder: set(now[holder]) for _, _, holder in given}
    last = {holder: place for place, (_, _, holder) in enumerate(given)}
    for place, (member, token, holder) in enumerate(given):
        events: list[DpEvent] = []
        if member not in now[holder]:
            events += _released(session.entries, account, member)
        now[holder].add(member)
        if last[holder] == place:
            events += _learned(session.entries, account, had[holder], now[holder])
        carried = book.charge(account, holder, events) if events else []
        # an entry also where the file was in it: no sequence number tells that two are equal
        entry = session.append(
            "add",
            {
                "account": account.name,
                "member": member,
                "holder": holder,
                "token": token,
                "carried": [charge.to_payload() for charge in carried],
            },
        )
        book.apply(entry)


def _released(entries: list[Entry], account: Account, member: str) -> list[DpEvent]:
    """What was released of a member before it came into the account, as its unit feels it."""
    found = []
    for entry in entries:
        payload = entry.payload
        if entry.kind == "reserve" and payload.get("member") == member:
            example = catalog.example("release", payload["mechanism"])
            shapes = tuple(tuple(shape) for shape in payload["shapes"])
            found.append(_event_for(type(example)(**payload["fields"]), shapes, account))
    return found


def _learned(
    entries: list[Entry], account: Account, before: set[str], after: set[str]
) -> list[DpEvent]:
    """What runs cost a holder of these members before they came into the account."""
    found = [
        runs.earlier_event(entry.payload, account, before, after)
        for entry in entries
        if entry.kind == "reserve" and "run" in entry.payload
    ]
    return [event for event in found if event is not None]
