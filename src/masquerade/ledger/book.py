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
from masquerade.ledger.balance import Pages, make_tables
from masquerade.ledger.filter import BudgetFilter
from masquerade.ledger.store import CLOCK, LedgerEntry, Session

_DIGRAPHS = (("ae", "a"), ("oe", "o"), ("ue", "u"))  # as Müller becomes Mueller
_PLAIN_LETTERS = str.maketrans("øłđıæœ", "oldiao")  # letters that no mark can be taken off


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    r"""What a name is known by: case, spaces, invisible signs and forms of Unicode aside.

    Example:
        >>> fold_name(" ANN\u00a0 Berg ") == fold_name("ann berg")
        True
    """
    for _ in range(3):  # folding can undo a normal form, and the other way round
        name = unicodedata.normalize("NFKC", name).casefold()
    name = unicodedata.normalize("NFKC", name)
    return " ".join("".join(c for c in name if unicodedata.category(c) != "Cf").split())


def find_near_names(name: str, others: Iterable[str]) -> list[str]:
    """Those of other names that may be a slip of the pen away from this one.

    Example:
        >>> find_near_names("Mueller", ["Müller", "Muller", "Schmidt"])
        ['Müller', 'Muller']
        >>> find_near_names("s001", ["s002"])
        []
    """
    return [other for other in others if _is_near(name, other)]


def _is_near(one: str, other: str) -> bool:
    """The same letters in any order of words, or one slip (two in a long name); digits as they are.

    Codes such as s001 and s002 differ in one sign and are different people.
    """
    (letters, digits), (others, numbers) = _split_letters(one), _split_letters(other)
    if digits != numbers:
        return False
    longest = max(sum(map(len, letters)), sum(map(len, others)))
    slips = 0 if longest < 4 else 1 if longest < 8 else 2
    orders = ((letters, others), (sorted(letters), sorted(others)))
    return any(_edit_distance("".join(a), "".join(b), limit=slips) <= slips for a, b in orders)


def _split_letters(name: str) -> tuple[list[str], list[int]]:
    """The words without marks, and the numbers."""
    plain = unicodedata.normalize("NFKD", fold_name(name)).translate(_PLAIN_LETTERS)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    for two, one in _DIGRAPHS:
        plain = plain.replace(two, one)
    words = [word for word in re.split(r"[\W\d_]+", plain) if word]
    return words, [int(number) for number in re.findall(r"\d+", plain)]


def _edit_distance(one: str, other: str, *, limit: int) -> int:
    """How many letters must be put in, taken out or changed; above ``limit`` anything above it."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row = row, [place]
        for at, against in enumerate(other, 1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (letter != against)))
        if min(row) > limit:
            return limit + 1
    return row[-1]


PEOPLE = (UnitName.SUBJECT, UnitName.SHARD)
WHOLE = (*WHOLE_FILE, UnitName.SHARD)
_ACCOUNTS, _MEMBERS, _TOKENS = "accounts", "members", "tokens"
_PAYERS, _RUNS, _REQUESTS, _SETTLEMENTS = "payers", "runs", "requests", "settled"
_SPACES = (_ACCOUNTS, _MEMBERS, _TOKENS, _PAYERS, _RUNS, _REQUESTS, _SETTLEMENTS)
_ENTRIES_PER_READ = 32  # entries whose pages are read at once
_MAX_KINDS = 256  # of events that a holder's list is kept for: nobody recomposes more
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
    cap: BudgetFilter
    public: str = PUBLIC[0]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("Expected a name for the account.")
        if self.public not in PUBLIC:
            raise ValueError(_check.describe_unknown("public", self.public, PUBLIC))
        refuse_add_remove(self.cap.relation)


class AccountBook:
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
    def read_session(cls, session: Session) -> AccountBook:
        """After all entries of a session; the balance is carried forward when that is due."""
        start = session.start
        book = cls(Pages(session.connection, start.root) if start.root else None)
        for some in _split_batches(session.walk_entries_since(start), _ENTRIES_PER_READ):
            book.pages.prefetch_pages(
                key for entry in some for key in _list_changed_facts(entry.payload)
            )
            for entry in some:
                book.apply_entry(entry)
        if start.is_due(session.sequence) and make_tables(session.connection):
            session.carry_forward(book.pages.write_pages(session.connection))
        return book

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccountBook) and self._list_all_facts() == other._list_all_facts()

    def _list_all_facts(self) -> list[dict[str, Any]]:
        return [dict(self.pages.list_facts(space)) for space in _SPACES]

    def apply_entry(self, entry: LedgerEntry) -> None:
        """The next entry.

        Raises:
            BadInput: if it is of a kind, or says something, that this version does not know.
        """
        try:
            self._apply_payload(entry)
        except BadInput:
            raise  # of the pages
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BadInput(
                f"Expected entries that this version can read, got entry {entry.sequence} of kind "
                f"{entry.kind!r} ({error}); if a newer version wrote it, use that one."
            ) from error

    def _apply_payload(self, entry: LedgerEntry) -> None:
        payload = entry.payload
        if entry.kind == "open":
            account = _json.decode_noun(Account, payload)
            self.pages.open_list_page(_ACCOUNTS)[account.name] = payload
        elif entry.kind == "add":
            self._add_member(payload, entry.sequence)
            self.pay_charges(payload["carried"])
        elif entry.kind == "reserve":
            self.pay_charges(payload["charges"])
            self._note_spend(payload, entry.sequence)
        elif entry.kind == "settle":
            number = payload["reservation"]
            self.pages.open_number_page(_SETTLEMENTS, number)[str(number)] = payload[
                "output_sha256"
            ]
        elif entry.kind != CLOCK:
            raise ValueError("the kind is unknown")

    def _add_member(self, payload: dict[str, Any], sequence: int) -> None:
        token, name = payload["token"], payload["member"]
        old = self.find_member(token)
        self.pages.open_hash_page(_TOKENS, token)[token] = [name, sequence]
        member = self._make_fact(_MEMBERS, name, {"held": {}, "files": 0, "is_released": False})
        if old != name:
            member["files"] += 1
        member["is_one_frame"] = self.is_one_frame(name) or bool(payload.get("is_one_frame"))
        if old not in (None, name):
            before = self._find_fact(_MEMBERS, str(old))
            before["files"] -= 1
            if not before["files"]:  # it is one with another now
                before["held"], before["became"] = {}, name
                member["is_released"] |= before["is_released"]
                member["is_one_frame"] |= before["is_one_frame"]
        held = member["held"].setdefault(payload["account"], [])
        holder = self.register_holder(payload["account"], payload["holder"])
        if holder not in held:
            held.append(holder)

    def _note_spend(self, payload: dict[str, Any], sequence: int) -> None:
        """What later entries ask of a spend: which run it was, and that a file was released."""
        if "request" in payload:
            known = self.pages.open_hash_page(_REQUESTS, payload["request"])
            known.setdefault(payload["request"], sequence)
        if "run" in payload:
            self.pages.open_hash_page(_RUNS, payload["run"]).setdefault(payload["run"], sequence)
        if "member" in payload:
            self._find_fact(_MEMBERS, payload["member"])["is_released"] = True

    def pay_charges(self, charges: list[dict[str, Any]]) -> None:
        """Take charges into the sums of who pays them."""
        for charge in charges:
            payer = self._make_payer(charge["account"], fold_name(charge["holder"]))
            payer["spent"] += int(charge["cost"])
            payer["count"] += 1
            payer["last"] = json.dumps(charge["event"], sort_keys=True)
            if payer["kinds"] is not None:
                payer["kinds"][payer["last"]] = payer["kinds"].get(payer["last"], 0) + 1
                if len(payer["kinds"]) > _MAX_KINDS:
                    payer["kinds"] = None

    def _make_payer(self, account: str, holder: str) -> dict[str, Any]:
        fresh = {"names": [], "spent": 0, "count": 0, "last": "", "kinds": {}}
        found: dict[str, Any] = self._make_fact(_PAYERS, _join_payer_key(account, holder), fresh)
        return found

    def _find_fact(self, space: str, key: str) -> Any:
        return self.pages.open_hash_page(space, key)[key]

    def _make_fact(self, space: str, key: str, fresh: dict[str, Any]) -> Any:
        return self.pages.open_hash_page(space, key).setdefault(key, fresh)

    def _find_payer(self, account: str, holder: str) -> dict[str, Any] | None:
        key = _join_payer_key(account, holder)
        found: dict[str, Any] | None = self.pages.open_hash_page(_PAYERS, key).get(key)
        return found

    def register_holder(self, account: str, name: str) -> str:
        """The holder of that name in an account; the name is remembered."""
        holder = fold_name(name)
        names = self._make_payer(account, holder)["names"]
        if name not in names:
            names.append(name)
        return holder

    def holder_name(self, account: str, holder: str) -> str:
        """A holder's name as it was first given."""
        payer = self._find_payer(account, holder)
        return str(payer["names"][0]) if payer and payer["names"] else holder

    @property
    def accounts(self) -> dict[str, Account]:
        """The accounts by name."""
        known = self.pages.open_list_page(_ACCOUNTS).items()
        return {name: _json.decode_noun(Account, payload) for name, payload in known}

    @property
    def holders(self) -> dict[tuple[str, str], list[str]]:
        """(account, member) to who pays."""
        members = self.pages.list_facts(_MEMBERS)
        return {
            (account, member): list(held)
            for member, known in members
            for account, held in known["held"].items()
        }

    @property
    def cost_by_payer(self) -> dict[tuple[str, str], int]:
        """(account, holder) to the sum of costs, of all who were ever charged."""
        payers = self.pages.list_facts(_PAYERS)
        return {_split_payer_key(key): payer["spent"] for key, payer in payers if payer["count"]}

    @property
    def output_by_reservation(self) -> dict[int, str]:
        """Reservations whose output stands, with the output's SHA-256."""
        return {int(number): digest for number, digest in self.pages.list_facts(_SETTLEMENTS)}

    def find_output(self, reservation: int) -> str | None:
        """The SHA-256 of the output that a reservation was for, if that stands."""
        found = self.pages.open_number_page(_SETTLEMENTS, reservation).get(str(reservation))
        return None if found is None else str(found)

    def find_run(self, run_id: str) -> int | None:
        """The entry that charged a run."""
        found: int | None = self.pages.open_hash_page(_RUNS, run_id).get(run_id)
        return found

    def find_request(self, name: str) -> int | None:
        """The entry that was reserved under a request's name."""
        found: int | None = self.pages.open_hash_page(_REQUESTS, name).get(name)
        return found

    def list_run_entries(self) -> list[int]:
        """The entries that charged runs, in order."""
        return sorted(sequence for _, sequence in self.pages.list_facts(_RUNS))

    def list_tokens(self) -> dict[str, str]:
        """The member of each token that the chain names."""
        return {token: member for token, (member, _) in self.pages.list_facts(_TOKENS)}

    def find_member(self, token: str) -> str | None:
        """The member that a token belongs to."""
        found = self.pages.open_hash_page(_TOKENS, token).get(token)
        return None if found is None else str(found[0])

    def last_entry_of(self, token: str) -> int:
        """The last entry that names a token."""
        return int(self._find_fact(_TOKENS, token)[1])

    def is_released(self, member: str) -> bool:
        """Whether anything was ever released of a member, outside of runs."""
        found = self.pages.open_hash_page(_MEMBERS, member).get(member)
        return found is not None and bool(found["is_released"])

    def is_one_frame(self, member: str) -> bool:
        """Whether a member came in as one frame; whatever is released of it is charged as that."""
        return bool(self.pages.open_hash_page(_MEMBERS, member).get(member, {}).get("is_one_frame"))

    def find_current_member(self, member: str) -> str:
        """The member that one has become: itself, unless it is one with another now."""
        found = self.pages.open_hash_page(_MEMBERS, member).get(member)
        return self.find_current_member(found["became"]) if found and "became" in found else member

    def list_accounts_of(self, member: str) -> dict[str, list[str]]:
        """The accounts that hold a member, with who pays in each."""
        found = self.pages.open_hash_page(_MEMBERS, member).get(member)
        return {} if found is None else dict(found["held"])

    def members_by_holder(self, account: str) -> dict[str, set[str]]:
        """The members of an account that each holder pays for."""
        found: dict[str, set[str]] = defaultdict(set)
        for member, known in self.pages.list_facts(_MEMBERS):
            for holder in known["held"].get(account, ()):
                found[holder].add(member)
        return found

    def list_spellings(self, account: str) -> dict[str, list[str]]:
        """The names of each holder of an account, the first of them first."""
        payers = ((_split_payer_key(key), payer) for key, payer in self.pages.list_facts(_PAYERS))
        return {holder: payer["names"] for (name, holder), payer in payers if name == account}

    def remaining_budget(self, account: Account, holder: str) -> int:
        """What a holder may still spend."""
        payer = self._find_payer(account.name, holder)
        return account.cap.allowance - (payer["spent"] if payer else 0)

    def charge_events(
        self, account: Account, holder: str, events: list[DpEvent]
    ) -> list[dict[str, Any]]:
        """The charges for events, as entries hold them, if all of them fit.

        Raises:
            BudgetExceeded: if they do not; the message says what would.
        """
        costs = [account.cap.price_event(event) for event in events]
        cost, left = sum(costs), self.remaining_budget(account, holder)
        if cost > left:
            fits = account.cap.find_fitting_epsilon(left)
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
        named = {"account": account.name, "holder": self.holder_name(account.name, holder)}
        return [
            named | {"cost": str(each), "event": event_to_json(event)}
            for each, event in zip(costs, events, strict=True)
        ]

    def count_charges(self, account: Account, holder: str) -> int:
        """How often a holder was charged."""
        payer = self._find_payer(account.name, holder)
        return payer["count"] if payer else 0

    def find_last_event(self, account: Account, holder: str) -> DpEvent | None:
        """What was last done to a holder's data."""
        payer = self._find_payer(account.name, holder)
        return event_from_json(json.loads(payer["last"])) if payer and payer["last"] else None

    def list_event_kinds(self, account: Account, holder: str) -> list[tuple[DpEvent, int]] | None:
        """What was done to a holder's data, and how often; None if that is of very many kinds."""
        payer = self._find_payer(account.name, holder)
        kinds = payer["kinds"] if payer else {}
        if kinds is None:
            return None
        return [(event_from_json(json.loads(text)), count) for text, count in kinds.items()]


def _split_batches(entries: Iterable[LedgerEntry], size: int) -> Iterator[list[LedgerEntry]]:
    """Lists of so many."""
    left = iter(entries)
    while some := list(islice(left, size)):
        yield some


def _list_changed_facts(payload: Any) -> Iterator[tuple[str, str]]:
    """The facts that an entry will change; one that is not as it should be says none."""
    if not isinstance(payload, dict):
        return
    for space, name in ((_MEMBERS, "member"), (_TOKENS, "token"), (_REQUESTS, "request")):
        if isinstance(payload.get(name), str):
            yield space, payload[name]
    for charge in payload.get("charges", []) if isinstance(payload.get("charges"), list) else []:
        if isinstance(charge, dict) and {"account", "holder"} <= charge.keys():
            yield _PAYERS, _join_payer_key(charge["account"], fold_name(str(charge["holder"])))


def _join_payer_key(account: str, holder: str) -> str:
    """The key of a payer."""
    return json.dumps([account, holder])


def _split_payer_key(key: str) -> tuple[str, str]:
    account, holder = json.loads(key)
    return account, holder


def _order_hint(account: Account, event: DpEvent) -> str:
    """What a Renyi account that was opened for such events would have needed."""
    better = account.cap.suggest_order(event)
    if better is None:
        return ""
    return (
        f" The account's Renyi order {account.cap.order:.5g} does not suit this and stays; "
        f"an account of the same cap that is opened with --order {better.order:.5g} would need "
        f"{100 * better.compute_share(event):.1f} %."
    )
