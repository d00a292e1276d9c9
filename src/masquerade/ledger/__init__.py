"""What has been spent, and a refusal past the cap. Bookkeeping for honest stewards.

It survives crashes and races and notices tampering; it cannot help against a steward who hides
data from it.
"""

from masquerade.ledger.book import Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.ledger import Ledger, WrongReceipt
from masquerade.ledger.runs import Run
from masquerade.ledger.store import LedgerEntry

__all__ = ["Account", "Book", "Content", "Ledger", "LedgerEntry", "Run", "WrongReceipt"]
