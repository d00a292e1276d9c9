"""Who comes into an account, and what is owed for what was done before."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from masquerade.events import DpEvent
from masquerade.ledger import runs
from masquerade.ledger.book import PEOPLE, WHOLE, Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.names import key_of
from masquerade.ledger.store import Session
from masquerade.mechanism import Mechanism, Shapes

Remake = Callable[..., Mechanism]  # a mechanism of its name and its fields


def account_of(book: Book, name: str) -> Account:
    """The account of that name."""
    if name not in book.accounts:
        listed = ", ".join(book.accounts) or "none is open"
        raise ValueError(f"Unknown account {name!r}; choose from {listed}.")
    return book.accounts[name]


def holder_of(account: Account, member: str, subject: str | None) -> str:
    """The name of who pays for a member: whom it shows, or itself."""
    if (account.unit.name in PEOPLE) != bool(subject and key_of(subject)):
        raise ValueError(
            "Expected a subject exactly where the account's unit is a subject or a shard, "
            f"got unit={account.unit} and subject={subject!r}."
        )
    return " ".join(subject.split()) if subject else member


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Contents on their way into accounts.

    Args:
        session: that entries are written in.
        book: what its entries say.
        remake: makes a mechanism that was used before, to ask what it costs; without it a file
            that was released before is refused.
    """

    session: Session
    book: Book
    remake: Remake | None

    def member_of(self, content: Content, same_as: Content | None) -> tuple[str, str]:
        """The member of a content (its own, that of its twin, or a new one) and its token."""
        known = self.session.member_of(content.fingerprint)
        twin = None if same_as is None else self.session.member_of(same_as.fingerprint)
        if same_as is not None and twin is None:
            raise ValueError("Expected the other file to be a member already; add it first.")
        if known is not None and twin is not None and known != twin:
            self._unite(known, twin)
        member = twin or known or secrets.token_hex(8)
        token = self.session.remember(content.fingerprint, member)
        self.session.keep_look(token, content.look)
        return member, token

    def _unite(self, old: str, new: str) -> None:
        """Make the files of a member those of another, in every account that holds either.

        Raises:
            ValueError: if the old one was charged before: what was spent apart stays apart.
        """
        for entry in self.session.entries:
            named = (entry.payload.get("member"), *entry.payload.get("members", ()))
            if entry.kind == "reserve" and old in named:
                raise ValueError(
                    "Expected a file of which nothing was released yet; both are members of their "
                    "own already, and this one was charged. Say what shows the same footage before "
                    "that."
                )
        book = self.book
        held = [(name, list(who)) for (name, member), who in book.holders.items() if member == old]
        for token in self.session.move(old, new):
            for name, holders in held:
                people = [new if each == old else book.name_of(name, each) for each in holders]
                self.add(book.accounts[name], [(new, token, each) for each in people])

    def add(self, account: Account, given: list[tuple[str, str, str]]) -> None:
        """Write the entries that put (member, token, name) into an account, with what is owed.

        What was released of a member before is charged with its entry; what runs cost a holder
        before, once, with the holder's last entry, for all that came together.
        """
        book = self.book
        now = book.members_by_holder(account.name)
        holders = [book.call(account.name, name) for _, _, name in given]
        had = {holder: set(now[holder]) for holder in holders}
        last = {holder: place for place, holder in enumerate(holders)}
        for place, ((member, token, _), holder) in enumerate(zip(given, holders, strict=True)):
            events: list[DpEvent] = []
            if member not in now[holder]:
                events += self._released(account, member)
            now[holder].add(member)
            if last[holder] == place:
                events += self._learned(account, had[holder], now[holder])
            carried = book.charge(account, holder, events) if events else []
            # an entry also where the file was in it: no sequence number tells that two are equal
            entry = self.session.append(
                "add",
                {
                    "account": account.name,
                    "member": member,
                    "holder": book.name_of(account.name, holder),
                    "token": token,
                    "carried": carried,
                },
            )
            book.apply(entry)

    def _released(self, account: Account, member: str) -> list[DpEvent]:
        """What was released of a member before it came into the account, as its unit feels it."""
        found = []
        for entry in self.session.entries:
            payload = entry.payload
            if entry.kind != "reserve" or payload.get("member") != member:
                continue
            shapes = tuple(tuple(shape) for shape in payload["shapes"])
            # old entries do not say whether the sound of a video went along: it may have
            has_sound = payload.get("with_sound", len(shapes[0]) == 4)
            if has_sound and account.unit.name in WHOLE:
                raise ValueError(
                    f"Expected a file whose sound never left, got one that entry {entry.sequence} "
                    f"released with it, or may have: {account.name} protects {account.unit}, and "
                    "voices are part of that. It cannot come into this account."
                )
            if self.remake is None:
                raise ValueError(
                    f"Expected to be told how {payload['mechanism']} is made: entry "
                    f"{entry.sequence} released this file with it, and {account.name} owes its "
                    "cost. Add it with remake=masquerade.make_mechanism."
                )
            mechanism = self.remake(payload["mechanism"], **payload["fields"])
            found.append(event_for(mechanism, shapes, account, with_sound=False))
        return found

    def _learned(self, account: Account, before: set[str], after: set[str]) -> list[DpEvent]:
        """What runs cost a holder of these members before they came into the account."""
        found = [
            runs.earlier_event(entry.payload, account, before, after)
            for entry in self.session.entries
            if entry.kind == "reserve" and "run" in entry.payload
        ]
        return [event for event in found if event is not None]


def event_for(
    mechanism: Mechanism, shapes: Shapes, account: Account, *, with_sound: bool
) -> DpEvent:
    """What a release costs a holder of an account; sound has no price where it is protected."""
    if with_sound and account.unit.name in WHOLE:
        raise ValueError(
            f"Expected the sound to be dropped: the account {account.name} protects "
            f"{account.unit}, and voices are part of that; leave out --keep-audio."
        )
    event = mechanism.event_for(shapes, account.unit)
    if event is None:
        raise ValueError(
            f"Expected a mechanism that states its cost for {account.unit}, the unit of the "
            f"account {account.name}, got {mechanism.name}."
        )
    return event
