"""Who comes into an account, and what is owed for what was done before.

What a steward should look at when files are added: heuristics, which decide nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from masquerade.events import DpEvent
from masquerade.ledger.book import PEOPLE, WHOLE, Account, AccountBook, find_near_names, fold_name
from masquerade.ledger.content import Content, find_alike
from masquerade.ledger.desk import OpenLedger
from masquerade.ledger.runs import find_earlier_event, update_run_members
from masquerade.mechanism import Mechanism, Shapes


def find_near_subjects(
    book: AccountBook, account: Account, subjects: Iterable[str | None]
) -> list[str]:
    """Say which new people of an account have nearly the name of somebody else in it."""
    holders = sorted(book.members_by_holder(account.name))
    known = {holder: book.holder_name(account.name, holder) for holder in holders}
    found = []
    for subject in dict.fromkeys(" ".join(each.split()) for each in subjects if each):
        if fold_name(subject) in known:
            continue
        alike = find_near_names(subject, known.values())
        if alike:
            found.append(
                f"{subject!r} is new in {account.name} and nearly the name of "
                f"{', '.join(map(repr, alike[:3]))}: if that is one person, add these files for "
                f"--subject {alike[0]!r} as well, so that one budget pays for all of them."
            )
        known[fold_name(subject)] = subject
    return found


def find_footage_doubts(desk: OpenLedger, contents: list[tuple[str, Content]]) -> list[str]:
    """Say which new films look like a member, or like one another."""
    looks = desk.footage_hashes() if any(content.look for _, content in contents) else {}
    known, found = list(looks.values()), []
    new: list[str] = []  # of the files themselves, which come after the members
    equal = {content.fingerprint: (name, content) for name, content in reversed(contents)}
    for name, content in reversed(equal.values()):
        if desk.list_content_members(content):
            continue
        places = find_alike(content.look, known)
        if places:
            listed = ", ".join(
                _describe_member(desk, list(looks)[place])
                if place < len(looks)
                else new[place - len(looks)]
                for place in places[:3]
            )
            found.append(
                f"{name} looks like {listed}: if it shows the same footage, add it again with "
                "--same-as and that file, before anything is released of it. This is a guess."
            )
        known.append(content.look)
        new.append(name)
    return found


def _describe_member(desk: OpenLedger, token: str) -> str:
    """A member by a token of it, and when that was last added."""
    sequence = desk.book.last_entry_of(token)
    entry = desk.session.read_entry(sequence)
    day = "" if entry is None else entry.time[:10]
    return f"member {desk.book.find_member(token)} (entry {sequence}, {day})"


Remake = Callable[..., Mechanism]  # a mechanism of its name and its fields


def find_account(book: AccountBook, name: str) -> Account:
    """The account of that name."""
    if name not in book.accounts:
        listed = ", ".join(book.accounts) or "none is open"
        raise ValueError(f"Unknown account {name!r}; choose from {listed}.")
    return book.accounts[name]


def find_holder(account: Account, member: str, subject: str | None) -> str:
    """The name of who pays for a member: whom it shows, or itself."""
    if (account.unit.name in PEOPLE) != bool(subject and fold_name(subject)):
        raise ValueError(
            "Expected a subject exactly where the account's unit is a subject or a shard, "
            f"got unit={account.unit} and subject={subject!r}."
        )
    return " ".join(subject.split()) if subject else member


class Entrant(NamedTuple):
    """A content on its way into an account.

    Args:
        member: that it is of.
        token: of the content.
        name: of who pays for it.
        is_one_frame: whether it came as one frame, so that whatever is released of it is of one.
    """

    member: str
    token: str
    name: str
    is_one_frame: bool = False


class _OwingEntrant(NamedTuple):
    """A file on its way into an account, and what it owes there."""

    account: Account
    entrant: Entrant
    holder: str
    events: tuple[DpEvent, ...]


@dataclass(frozen=True, kw_only=True)
class MemberJoin:
    """Contents on their way into accounts.

    Args:
        desk: at which entries are written.
        remake: makes a mechanism that was used before, to ask what it costs; without it a file
            that was released before is refused.
    """

    desk: OpenLedger
    remake: Remake | None

    def make_member(self, content: Content, same_as: Content | None) -> tuple[str, str]:
        """The member of a content (its own, that of its twin, or a new one) and its token."""
        own = self._find_one_member(content)
        twin = None if same_as is None else self._find_one_member(same_as)
        if same_as is not None and twin is None:
            raise ValueError("Expected the other file to be a member already; add it first.")
        if own is not None and twin is not None and own != twin:
            book = self.desk.book
            is_learned = any(own in payload["members"] for payload in self.desk.runs)
            if is_learned or book.is_released(own):
                raise ValueError(
                    "Expected a file of which nothing was released yet; both are members of their "
                    "own already, and this one was charged. Say what shows the same footage before "
                    "that."
                )
            self._unite_members(own, twin)
        member = twin or own or secrets.token_hex(8)
        is_new_form = content.is_one_frame and len(content.shapes[0]) != 4  # pictures always were
        book = self.desk.book
        if is_new_form and book.is_released(member) and not book.is_one_frame(member):
            raise ValueError(
                "Expected a recording in the form in which something was released of it, got it as "
                "one frame, which would have cost more; add it without the first axis."
            )
        token = self.desk.remember_content(content, member)
        self.desk.keep_footage_hash(token, content.look)
        return member, token

    def _find_one_member(self, content: Content) -> str | None:
        """The one member of a content; what an earlier version took for several is made one."""
        members = self.desk.list_content_members(content)
        for other in members[1:]:
            self._unite_members(other, members[0])
        return members[0] if members else None

    def _unite_members(self, old: str, new: str) -> None:
        """Make the files of a member those of another, in every account that holds either.

        What one of them cost before is owed wherever only the other was, and by whoever pays for
        it as a file of its own.
        """
        book, ways = self.desk.book, {}
        for name in dict.fromkeys((*book.list_accounts_of(old), *book.list_accounts_of(new))):
            holders = (
                *book.list_accounts_of(old).get(name, ()),
                *book.list_accounts_of(new).get(name, ()),
            )
            people = [new if each == old else book.holder_name(name, each) for each in holders]
            ways[name] = [Entrant(new, "", each) for each in dict.fromkeys(people)]
        owed = [
            each
            for name, given in ways.items()
            for each in self._compute_owed(book.accounts[name], given, was=old)
        ]
        for token in self.desk.move_contents(old, new):
            here = [each._replace(entrant=each.entrant._replace(token=token)) for each in owed]
            self._write_entrants(here)
            owed = [each._replace(events=()) for each in owed]

    def add_entrants(self, account: Account, given: list[Entrant]) -> None:
        """Write the entries that put contents into an account, with what is owed."""
        self._write_entrants(self._compute_owed(account, given))

    def _compute_owed(
        self, account: Account, given: list[Entrant], *, was: str = ""
    ) -> list[_OwingEntrant]:
        """What contents owe when they come into an account.

        What was released of a member before is owed with its entry; what runs cost a holder before,
        once, with the holder's last entry, for all that came together.

        Args:
            account: that they come into.
            given: who comes.
            was: another member that each of them is one with from then on.
        """
        book = self.desk.book
        now = book.members_by_holder(account.name)
        holders = [book.register_holder(account.name, each.name) for each in given]
        had = {holder: set(now[holder]) for holder in holders}
        last = {holder: place for place, holder in enumerate(holders)}
        runs = [update_run_members(book, payload) for payload in self.desk.runs]
        found = []
        for place, (entrant, holder) in enumerate(zip(given, holders, strict=True)):
            members = [each for each in (entrant.member, was) if each]
            events: list[DpEvent] = []
            for each in members:
                if each not in now[holder]:
                    events += self._list_past_events(account, each)
            now[holder].update(members)
            if last[holder] == place:
                earlier = (
                    find_earlier_event(run, account, had[holder], now[holder]) for run in runs
                )
                events += [event for event in earlier if event is not None]
            found.append(_OwingEntrant(account, entrant, holder, tuple(events)))
        return found

    def _write_entrants(self, coming: Iterable[_OwingEntrant]) -> None:
        book = self.desk.book
        for each in coming:
            account, entrant, events = each.account, each.entrant, list(each.events)
            carried = book.charge_events(account, each.holder, events) if events else []
            # an entry also where the file was in it: no sequence number tells that two are equal
            entry = self.desk.session.append_entry(
                "add",
                {
                    "account": account.name,
                    "member": entrant.member,
                    "holder": book.holder_name(account.name, each.holder),
                    "token": entrant.token,
                    "carried": carried,
                    "is_one_frame": entrant.is_one_frame,
                },
            )
            book.apply_entry(entry)

    def _list_past_events(self, account: Account, member: str) -> list[DpEvent]:
        """What was released of a member before it came into the account, as its unit feels it."""
        if not self.desk.book.is_released(member):
            return []
        found = []
        session = self.desk.session
        for entry in session.walk_entries_since(
            session.origin
        ):  # slow if there are many, and rarely needed
            payload = entry.payload
            if entry.kind != "reserve" or "member" not in payload:
                continue
            if self.desk.book.find_current_member(payload["member"]) != member:
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
