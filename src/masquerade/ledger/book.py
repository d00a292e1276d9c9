"""What the entries say: accounts, who is in them, and what each holder has spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from masquerade import _check, _json
from masquerade.account.sensitivity import refuse_add_remove
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.events import ComposedDpEvent, DpEvent, event_from_json, event_to_json
from masquerade.guarantee import WHOLE_FILE, Unit, UnitName
from masquerade.ledger.filter import Filter
from masquerade.ledger.names import key_of
from masquerade.ledger.store import CLOCK, LedgerEntry

PEOPLE = (UnitName.SUBJECT, UnitName.SHARD)
WHOLE = (*WHOLE_FILE, UnitName.SHARD)
PUBLIC = ("nothing", "people", "background")  # what of a recording an account takes as known


@dataclass(frozen=True, kw_only=True)
class Account:
    """A budget: one unit, one relation, one cap.

    Args:
        name: chosen by the steward.
        unit: what is protected.
        cap: epsilon, delta, relation, and the rule that keeps them.
        public: what of every recording is known to everyone: nothing, people or background. The
            budget is then of the rest, with masks and labels known as well.
    """

    name: str
    unit: Unit
    cap: Filter
    public: str = PUBLIC[0]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("Expected a name for the account.")
        if self.public not in PUBLIC:
            raise ValueError(_check.unknown("public", self.public, PUBLIC))
        refuse_add_remove(self.cap.relation)


@dataclass
class Book:
    """The state after replaying all entries.

    Args:
        accounts: by name.
        holders: (account, member) to who pays: the member itself, or everyone it shows, each by
            the key of the name. Spellings of one name pay together, also in old ledgers.
        names: (account, holder) to the names that were given, the first of them first.
        spent: (account, holder) to the sum of costs.
        events: (account, holder) to the events, in order.
        settled: reservations whose output stands, with the output's SHA-256.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    holders: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    names: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    spent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    events: dict[tuple[str, str], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    settled: dict[int, str] = field(default_factory=dict)
    _members: dict[str, str] = field(default_factory=dict)  # by token

    @classmethod
    def replay(cls, entries: Iterable[LedgerEntry]) -> Book:
        """Read the ledger from its first entry to its last."""
        book = cls()
        for entry in entries:
            book.apply(entry)
        return book

    def apply(self, entry: LedgerEntry) -> None:
        """The next entry.

        Raises:
            BadInput: if it is of a kind, or says something, that this version does not know.
        """
        try:
            self._apply(entry)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BadInput(
                f"Expected entries that this version can read, got entry {entry.sequence} of kind "
                f"{entry.kind!r} ({error}); if a newer version wrote it, use that one."
            ) from error

    def _apply(self, entry: LedgerEntry) -> None:
        payload = entry.payload
        if entry.kind == "open":
            account = _json.decode(Account, payload)
            self.accounts[account.name] = account
        elif entry.kind == "add":
            self._add(payload)
            self._charge(payload["carried"])
        elif entry.kind == "reserve":
            self._charge(payload["charges"])
        elif entry.kind == "settle":
            self.settled[payload["reservation"]] = payload["output_sha256"]
        elif entry.kind != CLOCK:
            raise ValueError("the kind is unknown")

    def _add(self, payload: dict[str, Any]) -> None:
        old = self._members.get(payload["token"])
        self._members[payload["token"]] = payload["member"]
        is_moved = old not in (None, payload["member"])
        if is_moved and old not in self._members.values():  # it is one with another now
            for place in [place for place in self.holders if place[1] == old]:
                del self.holders[place]
        held = self.holders[payload["account"], payload["member"]]
        holder = self.call(payload["account"], payload["holder"])
        if holder not in held:
            held.append(holder)

    def call(self, account: str, name: str) -> str:
        """The holder of that name in an account; the name is remembered."""
        holder = key_of(name)
        if name not in self.names[account, holder]:
            self.names[account, holder].append(name)
        return holder

    def name_of(self, account: str, holder: str) -> str:
        """A holder's name as it was first given."""
        return self.names.get((account, holder), [holder])[0]

    def _charge(self, charges: list[dict[str, Any]]) -> None:
        for charge in charges:
            key = charge["account"], key_of(charge["holder"])
            self.spent[key] += int(charge["cost"])
            self.events[key].append(charge["event"])

    def accounts_of(self, member: str) -> list[Account]:
        """The accounts that hold a member."""
        return [self.accounts[name] for name, held in list(self.holders) if held == member]

    def members_by_holder(self, account: str) -> dict[str, set[str]]:
        """The members of an account that each holder pays for."""
        found: dict[str, set[str]] = defaultdict(set)
        for (name, member), holders in self.holders.items():
            for holder in holders if name == account else ():
                found[holder].add(member)
        return found

    def left(self, account: Account, holder: str) -> int:
        """What a holder may still spend."""
        return account.cap.allowance - self.spent.get((account.name, holder), 0)

    def charge(self, account: Account, holder: str, events: list[DpEvent]) -> list[dict[str, Any]]:
        """The charges for events, as entries hold them, if all of them fit.

        Raises:
            BudgetExceeded: if they do not; the message says what would.
        """
        costs = [account.cap.cost(event) for event in events]
        cost, left = sum(costs), self.left(account, holder)
        if cost > left:
            fits = account.cap.epsilon_that_fits(left)
            remedy = (
                f"one of at most epsilon {int(fits * 1e4) / 1e4:g} at delta "
                f"{account.cap.delta:g} would fit"
                if fits >= 1e-4
                else "nothing more fits"
            )
            raise BudgetExceeded(
                f"The account {account.name} ({account.unit}, {account.cap.relation.value}) has "
                f"{100 * max(left, 0) / account.cap.allowance:.1f} % of its budget left and this "
                f"needs {100 * cost / account.cap.allowance:.1f} %: {remedy}. Nothing was "
                f"spent.{_order_hint(account, ComposedDpEvent(events))}"
            )
        named = {"account": account.name, "holder": self.name_of(account.name, holder)}
        return [
            named | {"cost": str(each), "event": event_to_json(event)}
            for each, event in zip(costs, events, strict=True)
        ]

    def events_of(self, account: Account, holder: str) -> list[DpEvent]:
        """What was done to a holder's data, in order."""
        return [event_from_json(data) for data in self.events.get((account.name, holder), [])]


def _order_hint(account: Account, event: DpEvent) -> str:
    """What a Renyi account that was opened for such events would have needed."""
    better = account.cap.better_order(event)
    if better is None:
        return ""
    return (
        f" The account's Renyi order {account.cap.order:.5g} does not suit this and stays; "
        f"an account of the same cap that is opened with --order {better.order:.5g} would need "
        f"{100 * better.share(event):.1f} %."
    )
