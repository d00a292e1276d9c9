"""What has been spent, and a refusal past the cap. Bookkeeping for honest stewards.

It survives crashes and races and notices tampering; it cannot help against a steward who hides
data from it. Names are fetched when they are first used: what only knows recordings by their
content (`ledger.content`) does without a database.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.ledger.book import Account, AccountBook
    from masquerade.ledger.content import Content
    from masquerade.ledger.ledger import Ledger, WrongReceipt
    from masquerade.ledger.runs import Run
    from masquerade.ledger.store import LedgerEntry


__all__ = ["Account", "AccountBook", "Content", "Ledger", "LedgerEntry", "Run", "WrongReceipt"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'masquerade.ledger' has no attribute {name!r}")
    from masquerade.ledger import book, content, ledger, runs, store

    homes = (book, content, ledger, runs, store)
    return next(vars(home)[name] for home in homes if name in vars(home))
