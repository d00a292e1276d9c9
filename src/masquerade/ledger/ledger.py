"""Open accounts, add files, reserve before a mechanism runs, settle after its output stands.

Walk a ledger from its first entry to its last, and work out what it has carried forward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade import _check, _json
from masquerade._optional import lazy_module, sql
from masquerade.errors import BadInput
from masquerade.guarantee import Relation, Unit
from masquerade.ledger import members, runs, words
from masquerade.ledger.balance import hash_page
from masquerade.ledger.book import PUBLIC, Account, AccountBook
from masquerade.ledger.content import Content
from masquerade.ledger.damage import LedgerTampered
from masquerade.ledger.desk import OpenLedger
from masquerade.ledger.filter import BudgetFilter, FilterName, find_best_order
from masquerade.ledger.members import Entrant, MemberJoin, Remake
from masquerade.ledger.runs import Run
from masquerade.ledger.store import CLOCK, LedgerAddress, LedgerEntry, Session
from masquerade.mechanism import Mechanism, Shapes, Value
from masquerade.receipt import Receipt

if TYPE_CHECKING:
    from masquerade.ledger import tables
else:
    tables = lazy_module("masquerade.ledger.tables")  # which loads a database


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a ledger that is whole consists of.

    Args:
        entries: how many there are.
        balance: the entry up to which they were carried forward; 0 if they never were.
        clocks: those that accept a clock which was set back.
    """

    entries: int
    balance: int
    clocks: tuple[LedgerEntry, ...]


def inspect_session(session: Session) -> Inspection:
    """Verify every row of a ledger.

    Raises:
        Tampered: if an entry, a fingerprint or the balance is not what it was.
    """
    start, book, clocks = session.start, AccountBook(), []
    for entry in session.walk_entries():
        if entry.sequence <= start.sequence:
            book.apply_entry(entry)
        if entry.sequence == start.sequence and entry.head != start.head:
            raise _make_balance_error(start.sequence)
        if entry.kind == CLOCK:
            clocks.append(entry)
    if start.root:
        _check_pages(session, book)
    return Inspection(entries=session.sequence, balance=start.sequence, clocks=tuple(clocks))


def _check_pages(session: Session, book: AccountBook) -> None:
    """Refuse pages unless they are those of this book, and no others."""
    expected = {name: hash_page(text) for name, text in book.pages.list_changes()}
    is_same, rows = expected[""] == session.start.root, 0
    seen: set[str] = set()
    for row in session.connection.execute(sql.select(tables.PAGES.c.name, tables.PAGES.c.text)):
        is_same &= isinstance(row.text, str) and hash_page(row.text) == expected.get(row.name)
        seen.add(row.name)
        rows += 1
    if not is_same or not rows == len(seen) == len(expected):
        raise _make_balance_error(session.start.sequence)


def _make_balance_error(sequence: int) -> LedgerTampered:
    return LedgerTampered(
        f"Expected the balance after entry {sequence} to be what the entries come to; it is not. "
        "Restore the newest good copy, and compare it with: masquerade ledger verify --receipts"
    )


class WrongReceipt(BadInput):
    """A receipt whose spend is not in this ledger, or is of another output."""


class Ledger:
    """A ledger at a path or a PostgreSQL address.

    Args:
        address: where it is.
        request: a random name; whatever is reserved under it is charged once, also when it is
            asked again after a crash.

    Example:
        >>> ledger = Ledger("budget.db")  # doctest: +SKIP
        >>> ledger.open_account(
        ...     "ward", Unit(name="frame"), epsilon=8, delta=1e-5
        ... )  # doctest: +SKIP
    """

    def __init__(self, address: str | Path, *, request: str = "") -> None:
        self._store = LedgerAddress(address)
        self._request = request

    @property
    def address(self) -> str:
        """Where it is, so that another process can open it."""
        return self._store.address

    def open_account(
        self,
        name: str,
        unit: Unit,
        *,
        epsilon: float,
        delta: float,
        relation: Relation = Relation.REPLACE_ONE,
        rule: FilterName = FilterName.GAUSSIAN,
        public: str = PUBLIC[0],
        order: float | None = None,
    ) -> Account:
        """Open an account; the ledger is made if there is none yet.

        Args:
            name: chosen by the steward.
            unit: what is protected.
            epsilon: of the cap.
            delta: of the cap.
            relation: how neighbours differ.
            rule: which filter keeps the cap.
            public: what of every recording is known to everyone.
            order: of a Renyi filter, for good; by default the best for Gaussian events. See
                `find_best_order` for others.
        """
        rule = FilterName(rule)
        if order is None and rule is FilterName.RENYI:
            order = find_best_order(epsilon, delta)
        cap = BudgetFilter(name=rule, epsilon=epsilon, delta=delta, relation=relation, order=order)
        account = Account(name=name, unit=unit, cap=cap, public=public)
        if account.cap.allowance <= 0:
            raise ValueError(
                f"Expected a cap that affords anything under the {rule.value} rule, got "
                f"epsilon={epsilon} and delta={delta}"
                + (f" at order {order:g}" if order else "")
                + "; raise one of them."
            )
        self._store.create_ledger()
        with self._open_desk() as desk:
            if name in desk.book.accounts:
                raise ValueError(f"Expected a new name, got {name!r}; such an account is open.")
            desk.session.append_entry("open", _json.encode_noun(account))
        return account

    def add_content(
        self,
        account: str,
        value: Value | Content,
        *,
        subject: str | None = None,
        same_as: Value | Content | None = None,
        remake: Remake | None = None,
    ) -> str:
        """Put a file's content into an account and return its member.

        Args:
            account: the account's name.
            value: the decoded content.
            subject: whom it shows; needed where the unit is a subject or a shard. A file that
                shows several people is added once for each.
            same_as: content of a member that shows the same footage (a trim, a re-encode, a
                second camera); the two are charged as one. That can be said later as well, as
                long as nothing was released of it.
            remake: `masquerade.make_mechanism`, for a file that was released before: what it
                cost is owed. Without it such a file is refused.
        """
        shown = [(Content.from_value(value), subject)]
        return self.add_contents(account, shown, same_as=same_as, remake=remake)[0]

    def add_contents(
        self,
        account: str,
        recordings: Iterable[tuple[Content, str | None]],
        *,
        same_as: Value | Content | None = None,
        remake: Remake | None = None,
    ) -> list[str]:
        """Put many contents with their subjects into an account, all of them or none.

        Args:
            account: the account's name.
            recordings: contents, each with whom it shows.
            same_as: content of a member that shows what all of them show; see `add_content`.
            remake: for files that were released before; see `add_content`.
        """
        twin = None if same_as is None else Content.from_value(same_as)
        with self._open_desk() as desk:
            coming = MemberJoin(desk=desk, remake=remake)
            held = members.find_account(desk.book, account)
            found = []
            for content, subject in recordings:
                member, token = coming.make_member(content, twin)
                name = members.find_holder(held, member, subject)
                found.append(Entrant(member, token, name, content.is_one_frame))
            coming.add_entrants(held, found)
            return [each.member for each in found]

    def find_doubts(
        self,
        account: str,
        subjects: Iterable[str | None],
        contents: Iterable[tuple[str, Content]] = (),
    ) -> list[str]:
        """What to look at before files come into an account; heuristics, not refusals.

        Args:
            account: the account's name.
            subjects: whom they show.
            contents: of the files, each with what to call it.
        """
        with self._open_desk() as desk:
            held = members.find_account(desk.book, account)
            found = members.find_near_subjects(desk.book, held, subjects)
            return found + members.find_footage_doubts(desk, list(contents))

    def quote_release(
        self, value: Value | Content, mechanism: Mechanism, *, with_sound: bool = False
    ) -> None:
        """Raise what `reserve_release` would raise, and spend nothing."""
        with self._open_desk() as desk:
            _compute_charges(desk, Content.from_value(value), mechanism, with_sound=with_sound)

    def quote_releases(
        self, contents: Iterable[Content], mechanism: Mechanism, *, with_sound: bool = False
    ) -> list[Exception | None]:
        """What `reserve_release` would raise for each, one after another; nothing is spent."""
        with self._open_desk() as desk:
            return [_quote_content(desk, each, mechanism, with_sound) for each in contents]

    def reserve_release(
        self, value: Value | Content, mechanism: Mechanism, *, with_sound: bool = False
    ) -> LedgerEntry:
        """Charge every account that holds this content, or none; the mechanism may run then.

        Under a request's name that has an entry without an output, that entry is given again.

        Args:
            value: what is released.
            mechanism: how.
            with_sound: whether the sound of a video leaves with it, as it is. That costs nothing
                where it is not protected and is refused where it is.

        Raises:
            BudgetExceeded: if one of them cannot afford it.
            BadInput: if no account holds it.
            ValueError: if the mechanism states no cost for an account's unit, or if sound leaves
                and an account protects whole files or people.
        """
        content = Content.from_value(value)
        with self._open_desk() as desk:
            said: dict[str, Any] = {
                "token": desk.find_token(content),
                "mechanism": mechanism.name,
                "fields": mechanism.encode_fields(),
                "with_sound": with_sound,
            }
            if self._request:
                said |= {"request": self._request}
                if entry := _find_reservation(desk, said):
                    return entry
            member, shapes, charges = _compute_charges(
                desk, content, mechanism, with_sound=with_sound
            )
            said |= {"member": member, "shapes": [list(shape) for shape in shapes]}
            return desk.session.append_entry("reserve", said | {"charges": charges})

    def quote_run(self, run: Run) -> None:
        """Raise what `reserve_run` would raise, and spend nothing."""
        with self._open_desk() as desk:
            runs.make_run_payload(desk, run)

    def reserve_run(self, run: Run) -> LedgerEntry:
        """Charge everyone whose recordings a run learns from, or nobody.

        A run that was charged before and has no output yet is taken up, not charged again.

        Raises:
            BudgetExceeded: if somebody cannot afford it.
            BadInput: if a recording is in no account.
            ValueError: if an account is of a kind that a run cannot charge.
        """
        with self._open_desk() as desk:
            entry = runs.find_charged_run(desk, run)
            return entry or desk.session.append_entry("reserve", runs.make_run_payload(desk, run))

    def record_output(self, receipt: Receipt) -> None:
        """Record which output a reservation is for; saying it twice changes nothing.

        Raises:
            WrongReceipt: if its spend is not in this ledger, or has another output already.
        """
        with self._open_desk() as desk:
            if _find_entry(desk.session, receipt) is None:
                raise WrongReceipt(
                    "Expected a receipt whose spend is in this ledger, got one of entry "
                    f"{receipt.ledger_sequence}, which is missing or is another release; settle it "
                    "with the ledger that was charged."
                )
            known = desk.book.find_output(receipt.ledger_sequence or 0)
            if known is not None and known != receipt.output_sha256:
                raise WrongReceipt(
                    f"Expected entry {receipt.ledger_sequence} to have no output yet, got one that "
                    "has; one charge is good for one output, and a second needs its own."
                )
            if known is None:
                payload = {
                    "reservation": receipt.ledger_sequence,
                    "output_sha256": receipt.output_sha256,
                }
                desk.session.append_entry("settle", payload)

    def has_spend_for(self, receipt: Receipt, value: Value | Content) -> bool:
        """Whether a receipt's spend was recorded here, for this very content."""
        with self._open_desk() as desk:
            entry = _find_entry(desk.session, receipt)
            token = desk.find_token(Content.from_value(value))
        return entry is not None and token is not None and entry.payload.get("token") == token

    def count_members(self, contents: Iterable[Content]) -> int:
        """How many of these are in an account, and so not to be used as if they were public."""
        with self._open_desk() as desk:
            return sum(bool(desk.list_content_members(each)) for each in contents)

    def count_unlinked(self, account: str) -> int:
        """How many members of an account an earlier version made, and nobody has seen since."""
        with self._open_desk() as desk:
            return len(words.list_unlinked(desk.book, desk.list_unlinked_members(), account))

    def accept_clock(self) -> LedgerEntry:
        """Go on with the present time although the last entry is of a later one.

        For a clock that was once ahead. The entry says so for good; which entries there are is
        checked as before.

        Raises:
            ValueError: if the clock is not behind.
        """
        with self._store.open_ledger_session() as session:
            last = session.time
            entry = session.append_entry(CLOCK, {"before": last})
            if entry.time >= last:
                raise ValueError(
                    "Expected a clock that is behind the last entry, got one that is not; there is "
                    "nothing to accept."
                )
        return entry

    def read_entries(self) -> list[LedgerEntry]:
        """Everything that was written, verified."""
        with self._store.open_ledger_session() as session:
            return list(session.walk_entries())

    def verify_entries(self) -> Inspection:
        """Walk everything from the first entry on, and work out the balance anew.

        Raises:
            Tampered: if anything is not what it was.
        """
        with self._store.open_ledger_session() as session:
            return inspect_session(session)

    def read_book(self) -> AccountBook:
        """What all entries together say."""
        with self._open_desk() as desk:
            desk.book.pages.read_all()
            return desk.book

    def list_summaries(self, account: str = "") -> list[dict[str, Any]]:
        """What is left of an account, or of each, for machines (see `ledger.words`).

        Args:
            account: its name; all of them if it is empty.
        """
        with self._open_desk() as desk:
            accounts = desk.book.accounts
            if account and account not in accounts:
                raise ValueError(_check.describe_unknown("account", account, list(accounts)))
            shown = [each for each in accounts.values() if account in ("", each.name)]
            unlinked = desk.list_unlinked_members()
            return [words.make_summary(desk.book, each, unlinked) for each in shown]

    def find_strangers(self, receipts: list[Receipt]) -> list[Receipt]:
        """Receipts whose entry is missing, is another release, or has another output already."""
        found: list[Receipt] = []
        outputs: dict[int, str] = {}
        with self._open_desk() as desk:
            for receipt in receipts:
                place, digest = receipt.ledger_sequence, receipt.output_sha256
                if place is None:
                    continue
                first = outputs.setdefault(place, desk.book.find_output(place) or digest)
                if _find_entry(desk.session, receipt) is None or first != digest:
                    found.append(receipt)
        return found

    @contextlib.contextmanager
    def _open_desk(self) -> Iterator[OpenLedger]:
        with self._store.open_ledger_session() as session:
            yield OpenLedger(session)


def _find_entry(session: Session, receipt: Receipt) -> LedgerEntry | None:
    entry = session.read_entry(receipt.ledger_sequence or 0)
    if entry is None:
        return None
    is_its = (
        entry.kind == "reserve"
        and entry.head == receipt.ledger_head
        and entry.payload["mechanism"] == receipt.mechanism
        and runs.is_same_fields(entry.payload["fields"], receipt.fields)
        and entry.payload.get("with_sound", receipt.kept_sound) == receipt.kept_sound
    )
    return entry if is_its else None


def _find_reservation(desk: OpenLedger, said: dict[str, Any]) -> LedgerEntry | None:
    """The entry that was reserved under this request's name, if there is one.

    Raises:
        BadInput: if it is of something else, or has its output already.
    """
    entry = desk.session.read_entry(desk.book.find_request(said["request"]) or 0)
    if entry is None:
        return None
    is_same = all(entry.payload.get(key) == value for key, value in said.items())
    if not is_same or desk.book.find_output(entry.sequence) is not None:
        raise BadInput(
            f"Expected to go on with entry {entry.sequence}, got another release than was "
            "reserved, or one that has an output; one charge is good for one output. Release it "
            "anew, which is charged."
        )
    return entry


def _quote_content(
    desk: OpenLedger, content: Content, mechanism: Mechanism, with_sound: bool
) -> Exception | None:
    """Why it cannot be reserved; if it can, the book has it paid and the disk does not."""
    try:
        _, _, charges = _compute_charges(desk, content, mechanism, with_sound=with_sound)
    except (ValueError, RuntimeError) as error:
        return error
    desk.book.pay_charges(charges)
    return None


def _compute_charges(
    desk: OpenLedger, content: Content, mechanism: Mechanism, *, with_sound: bool
) -> tuple[str, Shapes, list[dict[str, Any]]]:
    """The member, the shapes that it pays by, and who is charged what; all of it fits."""
    member, accounts = desk.find_content_member(content), desk.book.accounts
    held = {} if member is None else desk.book.list_accounts_of(member)
    if member is None or not held:
        raise BadInput(
            "Expected a file that is in an account of this ledger; add it first with: "
            "masquerade ledger add"
        )
    charges: list[dict[str, Any]] = []
    shapes = content.shapes
    if desk.book.is_one_frame(member) and not content.is_one_frame:
        shapes = ((1, *shapes[0]),)
    for name, holders in held.items():
        account = accounts[name]
        event = members.event_for(mechanism, shapes, account, with_sound=with_sound)
        for holder in holders:
            charges += desk.book.charge_events(account, holder, [event])
    return member, shapes, charges
