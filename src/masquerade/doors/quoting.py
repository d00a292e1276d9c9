"""What a ledger says to many files at once; each alone may fit where all of them do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.ledger import Content, Ledger
from masquerade.mechanism import Mechanism, Value


class Quotes(Ledger):
    """A ledger that remembers what it is asked, and answers for all files together."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._asked: dict[Path, tuple[Content, Mechanism, dict[str, Any]]] = {}
        self._source = Path()

    def of(self, source: Path) -> Quotes:
        """Itself; what is asked next is asked for this file."""
        self._source = source
        return self

    def quote(self, value: Value | Content, mechanism: Mechanism, **how: Any) -> None:
        """Remember it."""
        self._asked[self._source] = (Content.of(value), mechanism, how)

    def refused(self) -> list[tuple[Path, Exception]]:
        """The files that do not fit, one after another in this order, and why."""
        said = self.quote_all(list(self._asked.values()))
        found = zip(self._asked, said, strict=True)
        return [(source, error) for source, error in found if error is not None]
