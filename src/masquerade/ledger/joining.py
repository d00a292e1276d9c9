"""Who comes into an account, and what is owed for what was done before."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from masquerade.events import DpEvent
from masquerade.ledger import runs
from masquerade.ledger.book import PEOPLE, WHOLE, Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.desk import Desk
from masquerade.ledger.names import key_of
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
        desk: at which entries are written.
        remake: makes a mechanism that was used before, to ask what it costs; without it a file
            that was released before is refused.
    """

    desk: Desk
    remake: Remake | None

    def member_of(self, content: Content, same_as: Content | None) -> tuple[str, str]:
        """The member of a content (its own, that of its twin, or a new one) and its token."""
        known = self.desk.member_of(content.fingerprint)
        twin = None if same_as is None else self.desk.member_of(same_as.fingerprint)
        if same_as is not None and twin is None:
            raise ValueError("Expected the other file to be a member already; add it first.")
        if known is not None and twin is not None and known != twin:
            self._unite(known, twin)
        member = twin or known or secrets.token_hex(8)
        token = self.desk.remember(content.fingerprint, member)
        self.desk.keep_look(token, content.look)
        return member, token

    def _unite(self, old: str, new: str) -> None:
        """Make the files of a member those of another, in every account that holds either.

        Raises:
            ValueError: if the old one was charged before: what was spent apart stays apart.
        """
        book = self.desk.book
        is_learned = any(old in payload["members"] for payload in self.desk.runs)
        if is_learned or book.is_released(old):
            raise ValueError(
                "Expected a file of which nothing was released yet; both are members of their "
                "own already, and this one was charged. Say what shows the same footage before "
                "that."
            )
        held = [(name, list(who)) for name, who in book.held(old).items()]
        for token in self.desk.move(old, new):
            for name, holders in held:
                people = [new if each == old else book.name_of(name, each) for each in holders]
                self.add(book.accounts[name], [(new, token, each) for each in people])

    def add(self, account: Account, given: list[tuple[str, str, str]]) -> None:
        """Write the entries that put (member, token, name) into an account, with what is owed.

        What was released of a member before is charged with its entry; what runs cost a holder
        before, once, with the holder's last entry, for all that came together.
        """
        book = self.desk.book
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
            entry = self.desk.session.append(
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
        if not self.desk.book.is_released(member):
            return []
        found = []
        session = self.desk.session
        for entry in session.since(session.origin):  # slow if there are many, and rarely needed
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
        found = [runs.earlier_event(payload, account, before, after) for payload in self.desk.runs]
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
