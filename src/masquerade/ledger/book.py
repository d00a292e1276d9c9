"""What the entries say: accounts, who is in them, and what each holder has spent.

One person, one budget: a name may be written in several ways.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from masquerade import _check, _json
from masquerade.accounting.sensitivity import refuse_add_remove
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.events import ComposedDpEvent, DpEvent, event_from_json, event_to_json
from masquerade.guarantee import WHOLE_FILE, Unit, UnitName
from masquerade.ledger.balance import Pages, make_room
from masquerade.ledger.filter import Filter
from masquerade.ledger.store import CLOCK, LedgerEntry, Session

_DIGRAPHS = (("ae", "a"), ("oe", "o"), ("ue", "u"))  # as Müller becomes Mueller
_PLAIN = str.maketrans("øłđıæœ", "oldiao")  # letters that no mark can be taken off


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    r"""What a name is known by: case, spaces, invisible signs and forms of Unicode aside.

    Example:
        >>> key_of(" ANN\u00a0 Berg ") == key_of("ann berg")
        True
    """
    for _ in range(3):  # folding can undo a normal form, and the other way round
        name = unicodedata.normalize("NFKC", name).casefold()
    name = unicodedata.normalize("NFKC", name)
    return " ".join("".join(c for c in name if unicodedata.category(c) != "Cf").split())


def near(name: str, others: Iterable[str]) -> list[str]:
    """Those of other names that may be a slip of the pen away from this one.

    Example:
        >>> near("Mueller", ["Müller", "Muller", "Schmidt"]), near("s001", ["s002"])
        (['Müller', 'Muller'], [])
    """
    return [other for other in others if _is_near(name, other)]


def _is_near(one: str, other: str) -> bool:
    """The same letters in any order of words, or one slip (two in a long name); digits as they are.

    Codes such as s001 and s002 differ in one sign and are different people.
    """
    (letters, digits), (others, numbers) = _bones(one), _bones(other)
    if digits != numbers:
        return False
    longest = max(sum(map(len, letters)), sum(map(len, others)))
    slips = 0 if longest < 4 else 1 if longest < 8 else 2
    orders = ((letters, others), (sorted(letters), sorted(others)))
    return any(_distance("".join(a), "".join(b), most=slips) <= slips for a, b in orders)


def _bones(name: str) -> tuple[list[str], list[int]]:
    """The words without marks, and the numbers."""
    plain = unicodedata.normalize("NFKD", key_of(name)).translate(_PLAIN)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    for two, one in _DIGRAPHS:
        plain = plain.replace(two, one)
    words = [word for word in re.split(r"[\W\d_]+", plain) if word]
    return words, [int(number) for number in re.findall(r"\d+", plain)]


def _distance(one: str, other: str, *, most: int) -> int:
    """How many letters must be put in, taken out or changed; above ``most`` anything above it."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row = row, [place]
        for at, against in enumerate(other, 1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (letter != against)))
        if min(row) > most:
            return most + 1
    return row[-1]


PEOPLE = (UnitName.SUBJECT, UnitName.SHARD)
WHOLE = (*WHOLE_FILE, UnitName.SHARD)
_ACCOUNTS, _MEMBERS, _TOKENS = "accounts", "members", "tokens"
_PAYERS, _RUNS, _REQUESTS, _SETTLED = "payers", "runs", "requests", "settled"
_SPACES = (_ACCOUNTS, _MEMBERS, _TOKENS, _PAYERS, _RUNS, _REQUESTS, _SETTLED)
_TOGETHER = 32  # entries whose pages are read at once
_MOST_KINDS = 256  # of events that a holder's list is kept for: nobody recomposes more
PUBLIC = (
    "nothing",
    "people",
    "background",
    "features",
)  # what of a recording an account takes as known


@dataclass(frozen=True, kw_only=True)
class Account:
    """A budget: one unit, one relation, one cap.

    Args:
        name: chosen by the steward.
        unit: what is protected.
        cap: epsilon, delta, relation, and the rule that keeps them.
        public: what of every recording is known to everyone: nothing, people, background, or
            features, a coarse picture of it (psi). The budget is then of the rest, with masks,
            joints and labels known as well.
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


class Book:
    """What the entries say, read as far as it is asked for.

    Args:
        pages: where the facts are; by default nothing is known yet.

    A member has accounts with who pays in each: the member itself, or everyone it shows, each by
    the key of the name. Spellings of one name pay together, also in old ledgers. A payer has the
    names that were given, the first of them first, the sum of costs, and kinds of events.
    """

    def __init__(self, pages: Pages | None = None) -> None:
        self.pages = pages or Pages()

    @classmethod
    def of(cls, session: Session) -> Book:
        """After all entries of a session; the balance is carried forward when that is due."""
        start = session.start
        book = cls(Pages(session.connection, start.root) if start.root else None)
        for some in _batched(session.since(start), _TOGETHER):
            book.pages.foresee(key for entry in some for key in _asked(entry.payload))
            for entry in some:
                book.apply(entry)
        if start.is_due(session.sequence) and make_room(session.connection):
            session.carry_forward(book.pages.keep(session.connection))
        return book

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Book) and self._everything() == other._everything()

    def _everything(self) -> list[dict[str, Any]]:
        return [dict(self.pages.facts(space)) for space in _SPACES]

    def apply(self, entry: LedgerEntry) -> None:
        """The next entry.

        Raises:
            BadInput: if it is of a kind, or says something, that this version does not know.
        """
        try:
            self._apply(entry)
        except BadInput:
            raise  # of the pages
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BadInput(
                f"Expected entries that this version can read, got entry {entry.sequence} of kind "
                f"{entry.kind!r} ({error}); if a newer version wrote it, use that one."
            ) from error

    def _apply(self, entry: LedgerEntry) -> None:
        payload = entry.payload
        if entry.kind == "open":
            account = _json.decode(Account, payload)
            self.pages.listed(_ACCOUNTS)[account.name] = payload
        elif entry.kind == "add":
            self._add(payload, entry.sequence)
            self.pay(payload["carried"])
        elif entry.kind == "reserve":
            self.pay(payload["charges"])
            self._remember(payload, entry.sequence)
        elif entry.kind == "settle":
            number = payload["reservation"]
            self.pages.numbered(_SETTLED, number)[str(number)] = payload["output_sha256"]
        elif entry.kind != CLOCK:
            raise ValueError("the kind is unknown")

    def _add(self, payload: dict[str, Any], sequence: int) -> None:
        token, name = payload["token"], payload["member"]
        old = self.member_of(token)
        self.pages.hashed(_TOKENS, token)[token] = [name, sequence]
        member = self._made(_MEMBERS, name, {"held": {}, "files": 0, "is_released": False})
        if old != name:
            member["files"] += 1
        member["is_one_frame"] = self.is_one_frame(name) or bool(payload.get("is_one_frame"))
        if old not in (None, name):
            before = self._known(_MEMBERS, str(old))
            before["files"] -= 1
            if not before["files"]:  # it is one with another now
                before["held"], before["became"] = {}, name
                member["is_released"] |= before["is_released"]
                member["is_one_frame"] |= before["is_one_frame"]
        held = member["held"].setdefault(payload["account"], [])
        holder = self.call(payload["account"], payload["holder"])
        if holder not in held:
            held.append(holder)

    def _remember(self, payload: dict[str, Any], sequence: int) -> None:
        """What later entries ask of a spend: which run it was, and that a file was released."""
        if "request" in payload:
            known = self.pages.hashed(_REQUESTS, payload["request"])
            known.setdefault(payload["request"], sequence)
        if "run" in payload:
            self.pages.hashed(_RUNS, payload["run"]).setdefault(payload["run"], sequence)
        if "member" in payload:
            self._known(_MEMBERS, payload["member"])["is_released"] = True

    def pay(self, charges: list[dict[str, Any]]) -> None:
        """Take charges into the sums of who pays them."""
        for charge in charges:
            payer = self._payer(charge["account"], key_of(charge["holder"]))
            payer["spent"] += int(charge["cost"])
            payer["count"] += 1
            payer["last"] = json.dumps(charge["event"], sort_keys=True)
            if payer["kinds"] is not None:
                payer["kinds"][payer["last"]] = payer["kinds"].get(payer["last"], 0) + 1
                if len(payer["kinds"]) > _MOST_KINDS:
                    payer["kinds"] = None

    def _payer(self, account: str, holder: str) -> dict[str, Any]:
        fresh = {"names": [], "spent": 0, "count": 0, "last": "", "kinds": {}}
        found: dict[str, Any] = self._made(_PAYERS, _pair(account, holder), fresh)
        return found

    def _known(self, space: str, key: str) -> Any:
        return self.pages.hashed(space, key)[key]

    def _made(self, space: str, key: str, fresh: dict[str, Any]) -> Any:
        return self.pages.hashed(space, key).setdefault(key, fresh)

    def _of_payer(self, account: str, holder: str) -> dict[str, Any] | None:
        key = _pair(account, holder)
        found: dict[str, Any] | None = self.pages.hashed(_PAYERS, key).get(key)
        return found

    def call(self, account: str, name: str) -> str:
        """The holder of that name in an account; the name is remembered."""
        holder = key_of(name)
        names = self._payer(account, holder)["names"]
        if name not in names:
            names.append(name)
        return holder

    def name_of(self, account: str, holder: str) -> str:
        """A holder's name as it was first given."""
        payer = self._of_payer(account, holder)
        return str(payer["names"][0]) if payer and payer["names"] else holder

    @property
    def accounts(self) -> dict[str, Account]:
        """The accounts by name."""
        known = self.pages.listed(_ACCOUNTS).items()
        return {name: _json.decode(Account, payload) for name, payload in known}

    @property
    def holders(self) -> dict[tuple[str, str], list[str]]:
        """(account, member) to who pays."""
        members = self.pages.facts(_MEMBERS)
        return {
            (account, member): list(held)
            for member, known in members
            for account, held in known["held"].items()
        }

    @property
    def spent(self) -> dict[tuple[str, str], int]:
        """(account, holder) to the sum of costs, of all who were ever charged."""
        payers = self.pages.facts(_PAYERS)
        return {_unpair(key): payer["spent"] for key, payer in payers if payer["count"]}

    @property
    def settled(self) -> dict[int, str]:
        """Reservations whose output stands, with the output's SHA-256."""
        return {int(number): digest for number, digest in self.pages.facts(_SETTLED)}

    def output_of(self, reservation: int) -> str | None:
        """The SHA-256 of the output that a reservation was for, if that stands."""
        found = self.pages.numbered(_SETTLED, reservation).get(str(reservation))
        return None if found is None else str(found)

    def run_at(self, run_id: str) -> int | None:
        """The entry that charged a run."""
        found: int | None = self.pages.hashed(_RUNS, run_id).get(run_id)
        return found

    def request_at(self, name: str) -> int | None:
        """The entry that was reserved under a request's name."""
        found: int | None = self.pages.hashed(_REQUESTS, name).get(name)
        return found

    def runs(self) -> list[int]:
        """The entries that charged runs, in order."""
        return sorted(sequence for _, sequence in self.pages.facts(_RUNS))

    def tokens(self) -> dict[str, str]:
        """The member of each token that the chain names."""
        return {token: member for token, (member, _) in self.pages.facts(_TOKENS)}

    def member_of(self, token: str) -> str | None:
        """The member that a token belongs to."""
        found = self.pages.hashed(_TOKENS, token).get(token)
        return None if found is None else str(found[0])

    def added_at(self, token: str) -> int:
        """The last entry that names a token."""
        return int(self._known(_TOKENS, token)[1])

    def is_released(self, member: str) -> bool:
        """Whether anything was ever released of a member, outside of runs."""
        found = self.pages.hashed(_MEMBERS, member).get(member)
        return found is not None and bool(found["is_released"])

    def is_one_frame(self, member: str) -> bool:
        """Whether a member came in as one frame; whatever is released of it is charged as that."""
        return bool(self.pages.hashed(_MEMBERS, member).get(member, {}).get("is_one_frame"))

    def current(self, member: str) -> str:
        """The member that one has become: itself, unless it is one with another now."""
        found = self.pages.hashed(_MEMBERS, member).get(member)
        return self.current(found["became"]) if found and "became" in found else member

    def held(self, member: str) -> dict[str, list[str]]:
        """The accounts that hold a member, with who pays in each."""
        found = self.pages.hashed(_MEMBERS, member).get(member)
        return {} if found is None else dict(found["held"])

    def members_by_holder(self, account: str) -> dict[str, set[str]]:
        """The members of an account that each holder pays for."""
        found: dict[str, set[str]] = defaultdict(set)
        for member, known in self.pages.facts(_MEMBERS):
            for holder in known["held"].get(account, ()):
                found[holder].add(member)
        return found

    def spellings(self, account: str) -> dict[str, list[str]]:
        """The names of each holder of an account, the first of them first."""
        payers = ((_unpair(key), payer) for key, payer in self.pages.facts(_PAYERS))
        return {holder: payer["names"] for (name, holder), payer in payers if name == account}

    def left(self, account: Account, holder: str) -> int:
        """What a holder may still spend."""
        payer = self._of_payer(account.name, holder)
        return account.cap.allowance - (payer["spent"] if payer else 0)

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

    def count_of(self, account: Account, holder: str) -> int:
        """How often a holder was charged."""
        payer = self._of_payer(account.name, holder)
        return payer["count"] if payer else 0

    def last_of(self, account: Account, holder: str) -> DpEvent | None:
        """What was last done to a holder's data."""
        payer = self._of_payer(account.name, holder)
        return event_from_json(json.loads(payer["last"])) if payer and payer["last"] else None

    def kinds_of(self, account: Account, holder: str) -> list[tuple[DpEvent, int]] | None:
        """What was done to a holder's data, and how often; None if that is of very many kinds."""
        payer = self._of_payer(account.name, holder)
        kinds = payer["kinds"] if payer else {}
        if kinds is None:
            return None
        return [(event_from_json(json.loads(text)), count) for text, count in kinds.items()]


def _batched(entries: Iterable[LedgerEntry], size: int) -> Iterator[list[LedgerEntry]]:
    """Lists of so many."""
    left = iter(entries)
    while some := list(islice(left, size)):
        yield some


def _asked(payload: Any) -> Iterator[tuple[str, str]]:
    """The facts that an entry will change; one that is not as it should be says none."""
    if not isinstance(payload, dict):
        return
    for space, name in ((_MEMBERS, "member"), (_TOKENS, "token"), (_REQUESTS, "request")):
        if isinstance(payload.get(name), str):
            yield space, payload[name]
    for charge in payload.get("charges", []) if isinstance(payload.get("charges"), list) else []:
        if isinstance(charge, dict) and {"account", "holder"} <= charge.keys():
            yield _PAYERS, _pair(charge["account"], key_of(str(charge["holder"])))


def _pair(account: str, holder: str) -> str:
    """The key of a payer."""
    return json.dumps([account, holder])


def _unpair(key: str) -> tuple[str, str]:
    account, holder = json.loads(key)
    return account, holder


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
