"""What a steward should look at when files are added: heuristics, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from masquerade.ledger.book import Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.looks import alike
from masquerade.ledger.names import key_of, near
from masquerade.ledger.store import Session


def of_names(book: Book, account: Account, subjects: Iterable[str | None]) -> list[str]:
    """Say which new people of an account have nearly the name of somebody else in it."""
    holders = book.members_by_holder(account.name)
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


def of_looks(session: Session, contents: list[tuple[str, Content]]) -> list[str]:
    """Say which new films look like a member, or like one another."""
    looks = session.looks() if any(content.look for _, content in contents) else {}
    added = {entry.payload["token"]: entry for entry in session.entries if entry.kind == "add"}
    names = [
        f"member {added[token].payload['member']} (entry {added[token].sequence}, "
        f"{added[token].time[:10]})"
        for token in looks
    ]
    known, found = list(looks.values()), []
    equal = {content.fingerprint: (name, content) for name, content in reversed(contents)}
    for name, content in reversed(equal.values()):
        if session.member_of(content.fingerprint) is not None:
            continue
        places = alike(content.look, known)
        if places:
            listed = ", ".join(names[place] for place in places[:3])
            found.append(
                f"{name} looks like {listed}: if it shows the same footage, add it again with "
                "--same-as and that file, before anything is released of it. This is a guess."
            )
        known.append(content.look)
        names.append(name)
    return found
