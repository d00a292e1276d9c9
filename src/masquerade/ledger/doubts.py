"""What a steward should look at when files are added: heuristics, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from masquerade.ledger.book import Account, Book
from masquerade.ledger.names import key_of, near


def of_names(book: Book, account: Account, subjects: Iterable[str | None]) -> list[str]:
    """Say which new people of an account have nearly the name of somebody else in it."""
    known = {
        holder: book.name_of(name, holder)
        for (name, _), holders in book.holders.items()
        for holder in (holders if name == account.name else ())
    }
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
