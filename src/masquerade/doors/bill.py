"""Who pays for what is published: nobody, or the accounts that hold a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from masquerade import ledger as ledgers
from masquerade.errors import BadInput
from masquerade.ledger.content import Content
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.receipt import Receipt


@dataclass
class NoBill:
    """There is no ledger: nothing is owed, and nobody can tell what was paid for before."""

    charged: dict[str, Any] = field(default_factory=dict, init=False)
    spent: str = field(default="", init=False)

    def reserve(self) -> None:
        """Nothing."""

    def vouches_for(self, receipt: Receipt) -> None:
        """Nobody can tell."""

    def settle(self, receipt: Receipt) -> None:
        """Nothing."""


@dataclass(kw_only=True)
class RecordingBill:
    """What is owed for one recording under a mechanism.

    Args:
        ledger: that is charged.
        content: of the recording, computed when it is asked for.
        mechanism: what is done.
        with_sound: whether the sound of a video leaves with it.
    """

    ledger: ledgers.Ledger
    content: Callable[[], Content]
    mechanism: Mechanism
    with_sound: bool
    charged: dict[str, Any] = field(default_factory=dict, init=False)
    spent: str = field(default="", init=False)

    def reserve(self) -> None:
        """Charge every account that holds the recording; the spend is on disk afterwards."""
        content = self.content()
        self.spent = "What was reserved for it is spent."
        found = self.ledger.reserve(content, self.mechanism, with_sound=self.with_sound)
        self.charged = {"ledger_sequence": found.sequence, "ledger_head": found.head}

    def vouches_for(self, receipt: Receipt) -> bool:
        """Whether the receipt's spend was recorded here, for this very recording."""
        return self.ledger.vouches_for(receipt, self.content())

    def settle(self, receipt: Receipt) -> Exception | None:
        """Record the output; where the ledger cannot be told, that may wait: the spend is in it."""
        try:
            self.ledger.settle(receipt)
        except (BadInput, OSError) as error:
            if isinstance(error, ledgers.WrongReceipt):
                raise
            return error
        return None


def refuse_rehearsal(ledger: ledgers.Ledger | None, noise: Noise) -> None:
    """A rehearsal protects nothing, so nothing is charged for it."""
    if ledger is not None and noise.is_rehearsal:
        raise ValueError(
            "Expected live noise under a ledger, got a rehearsal; leave out the seed or the ledger."
        )


def bill_of(
    ledger: ledgers.Ledger | None,
    noise: Noise,
    content: Callable[[], Content],
    mechanism: Mechanism,
    *,
    with_sound: bool = False,
) -> NoBill | RecordingBill:
    """The ledger's, or one of nothing."""
    refuse_rehearsal(ledger, noise)
    if ledger is None:
        return NoBill()
    return RecordingBill(ledger=ledger, content=content, mechanism=mechanism, with_sound=with_sound)
