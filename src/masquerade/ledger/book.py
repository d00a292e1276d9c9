"""What the entries say: accounts, who is in them, and what each holder has spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from masquerade import _json
from masquerade.account.sensitivity import refuse_add_remove
from masquerade.errors import BudgetExceeded
from masquerade.events import DpEvent, event_from_json
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger.filter import Filter, FilterName
from masquerade.ledger.store import Entry

PEOPLE = (UnitName.SUBJECT, UnitName.SHARD)


@dataclass(frozen=True, kw_only=True)
class Account:
    """A budget: one unit, one relation, one cap.

    Args:
        name: chosen by the steward.
        unit: what is protected.
        cap: epsilon, delta, relation, and the rule that keeps them.
    """

    name: str
    unit: Unit
    cap: Filter

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("Expected a name for the account.")
        refuse_add_remove(self.cap.relation)

    def to_payload(self) -> dict[str, Any]:
        """As it stands in the ledger."""
        data: dict[str, Any] = _json.encode(self)
        return data

    @classmethod
    def from_payload(cls, data: dict[str, Any]) -> Account:
        """Read it back, checked again."""
        cap = data["cap"]
        return cls(
            name=data["name"],
            unit=_json.decode(Unit, data["unit"]),
            cap=Filter(
                name=FilterName(cap["name"]),
                epsilon=cap["epsilon"],
                delta=cap["delta"],
                relation=Relation(cap["relation"]),
                order=cap["order"],
            ),
        )


@dataclass(frozen=True)
class Charge:
    """What one account takes for one release."""

    account: str
    holder: str
    cost: int


@dataclass
class Book:
    """The state after replaying all entries.

    Args:
        accounts: by name.
        holders: (account, member) to who pays: the member itself, or its subject.
        spent: (account, holder) to the sum of costs.
        events: (account, holder) to the events, in order.
        settled: sequence numbers of reservations whose output stands.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    holders: dict[tuple[str, str], str] = field(default_factory=dict)
    spent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    events: dict[tuple[str, str], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    settled: set[int] = field(default_factory=set)

    @classmethod
    def replay(cls, entries: Iterable[Entry]) -> Book:
        """Read the ledger from its first entry to its last."""
        book = cls()
        for entry in entries:
            payload = entry.payload
            if entry.kind == "open":
                account = Account.from_payload(payload)
                book.accounts[account.name] = account
            elif entry.kind == "add":
                book.holders[payload["account"], payload["member"]] = payload["holder"]
            elif entry.kind == "reserve":
                for charge in payload["charges"]:
                    key = charge["account"], charge["holder"]
                    book.spent[key] += int(charge["cost"])
                    book.events[key].append(charge["event"])
            elif entry.kind == "settle":
                book.settled.add(payload["reservation"])
        return book

    def accounts_of(self, member: str) -> list[Account]:
        """The accounts that hold a member."""
        return [self.accounts[name] for name, held in self.holders if held == member]

    def left(self, account: Account, holder: str) -> int:
        """What a holder may still spend."""
        return account.cap.allowance - self.spent.get((account.name, holder), 0)

    def charge(self, account: Account, member: str, event: DpEvent) -> Charge:
        """The charge for an event, if it fits.

        Raises:
            BudgetExceeded: if it does not; the message says what would.
        """
        holder = self.holders[account.name, member]
        cost, left = account.cap.cost(event), self.left(account, holder)
        if cost > left:
            fits = account.cap.epsilon_that_fits(left)
            remedy = (
                f"a release of at most epsilon {int(fits * 1e4) / 1e4:g} at delta "
                f"{account.cap.delta:g} would fit"
                if fits >= 1e-4
                else "nothing more fits"
            )
            raise BudgetExceeded(
                f"The account {account.name} ({account.unit}, {account.cap.relation.value}) has "
                f"{100 * max(left, 0) / account.cap.allowance:.1f} % of its budget left and this "
                f"release needs {100 * cost / account.cap.allowance:.1f} %: {remedy}. Nothing was "
                "spent."
            )
        return Charge(account.name, holder, cost)

    def events_of(self, account: Account, holder: str) -> list[DpEvent]:
        """What was done to a holder's data, in order."""
        return [event_from_json(data) for data in self.events.get((account.name, holder), [])]
