"""What has been spent, and a refusal past the cap. Bookkeeping for honest stewards.

It survives crashes and races and notices tampering; it cannot help against a steward who hides
data from it.
"""

from masquerade.ledger.book import Account, Book
from masquerade.ledger.ledger import Content, Ledger, Reservation

__all__ = ["Account", "Book", "Content", "Ledger", "Reservation"]
