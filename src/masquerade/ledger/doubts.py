"""What a steward should look at when files are added: heuristics, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from masquerade.ledger.book import Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.desk import Desk
from masquerade.ledger.looks import alike
from masquerade.ledger.names import key_of, near


def of_names(book: Book, account: Account, subjects: Iterable[str | None]) -> list[str]:
    """Say which new people of an account have nearly the name of somebody else in it."""
    holders = sorted(book.members_by_holder(account.name))
    known = {holder: book.name_of(account.name, holder) for holder in holders}
    found = []
    for subject in dict.fromkeys(" ".join(each.split()) for each in subjects if each):
        if key_of(subject) in known:
            continue
        alike = near(subject, known.values())
        if alike:
            found.append(
                f"{subject!r} is new in {account.name} and nearly the name of "
                f"{', '.join(map(repr, alike[:3]))}: if that is one person, add these files for "
                f"--subject {alike[0]!r} as well, so that one budget pays for all of them."
            )
        known[key_of(subject)] = subject
    return found


def of_looks(desk: Desk, contents: list[tuple[str, Content]]) -> list[str]:
    """Say which new films look like a member, or like one another."""
    looks = desk.looks() if any(content.look for _, content in contents) else {}
    known, found = list(looks.values()), []
    new: list[str] = []  # of the files themselves, which come after the members
    equal = {content.fingerprint: (name, content) for name, content in reversed(contents)}
    for name, content in reversed(equal.values()):
        if desk.members_of(content):
            continue
        places = alike(content.look, known)
        if places:
            listed = ", ".join(
                _added(desk, list(looks)[place]) if place < len(looks) else new[place - len(looks)]
                for place in places[:3]
            )
            found.append(
                f"{name} looks like {listed}: if it shows the same footage, add it again with "
                "--same-as and that file, before anything is released of it. This is a guess."
            )
        known.append(content.look)
        new.append(name)
    return found


def _added(desk: Desk, token: str) -> str:
    """A member by a token of it, and when that was last added."""
    sequence = desk.book.added_at(token)
    entry = desk.session.entry_at(sequence)
    day = "" if entry is None else entry.time[:10]
    return f"member {desk.book.member_of(token)} (entry {sequence}, {day})"
