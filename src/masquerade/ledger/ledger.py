"""Open accounts, add files, reserve before a mechanism runs, settle after its output stands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from masquerade import _json
from masquerade.errors import BadInput
from masquerade.guarantee import Relation, Unit
from masquerade.ledger import doubts, joining, runs
from masquerade.ledger.book import PUBLIC, Account, Book
from masquerade.ledger.content import Content
from masquerade.ledger.filter import Filter, FilterName, best_order
from masquerade.ledger.home import Home
from masquerade.ledger.joining import Joining, Remake
from masquerade.ledger.runs import Run
from masquerade.ledger.store import CLOCK, LedgerEntry, Session
from masquerade.mechanism import Mechanism, Value
from masquerade.receipt import Receipt


class WrongReceipt(BadInput):
    """A receipt whose spend is not in this ledger, or is of another output."""


class Ledger:
    """A ledger at a path or a PostgreSQL address.

    Example:
        >>> ledger = Ledger("budget.db")  # doctest: +SKIP
        >>> ledger.open_account(
        ...     "ward", Unit(name="frame"), epsilon=8, delta=1e-5
        ... )  # doctest: +SKIP
    """

    def __init__(self, address: str | Path) -> None:
        self._store = Home(address)

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
                `best_order` for others.
        """
        rule = FilterName(rule)
        if order is None and rule is FilterName.RENYI:
            order = best_order(epsilon, delta)
        cap = Filter(name=rule, epsilon=epsilon, delta=delta, relation=relation, order=order)
        account = Account(name=name, unit=unit, cap=cap, public=public)
        if account.cap.allowance <= 0:
            raise ValueError(
                f"Expected a cap that affords anything under the {rule.value} rule, got "
                f"epsilon={epsilon} and delta={delta}"
                + (f" at order {order:g}" if order else "")
                + "; raise one of them."
            )
        self._store.create()
        with self._store.session() as session:
            if name in Book.replay(session.entries).accounts:
                raise ValueError(f"Expected a new name, got {name!r}; such an account is open.")
            session.append("open", _json.encode(account))
        return account

    def add(
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
        shown = [(Content.of(value), subject)]
        return self.add_all(account, shown, same_as=same_as, remake=remake)[0]

    def add_all(
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
            same_as: content of a member that shows what all of them show; see `add`.
            remake: for files that were released before; see `add`.
        """
        twin = None if same_as is None else Content.of(same_as)
        with self._store.session() as session:
            book = Book.replay(session.entries)
            coming = Joining(session=session, book=book, remake=remake)
            held = joining.account_of(book, account)
            found = []
            for content, subject in recordings:
                member, token = coming.member_of(content, twin)
                found.append((member, token, joining.holder_of(held, member, subject)))
            coming.add(held, found)
            return [member for member, _, _ in found]

    def doubts(
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
        with self._store.session() as session:
            book = Book.replay(session.entries)
            found = doubts.of_names(book, joining.account_of(book, account), subjects)
            return found + doubts.of_looks(session, list(contents))

    def quote(
        self, value: Value | Content, mechanism: Mechanism, *, with_sound: bool = False
    ) -> None:
        """Raise what `reserve` would raise, and spend nothing."""
        with self._store.session() as session:
            _charges(session, Content.of(value), mechanism, with_sound=with_sound)

    def quote_all(
        self, contents: Iterable[Content], mechanism: Mechanism, *, with_sound: bool = False
    ) -> list[Exception | None]:
        """What `reserve` would raise for each, one after another; nothing is spent."""
        with self._store.session() as session:
            before = len(session.entries)
            try:
                return [_quoted(session, each, mechanism, with_sound) for each in contents]
            finally:
                del session.entries[before:]

    def reserve(
        self, value: Value | Content, mechanism: Mechanism, *, with_sound: bool = False
    ) -> LedgerEntry:
        """Charge every account that holds this content, or none; the mechanism may run then.

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
        content = Content.of(value)
        with self._store.session() as session:
            member, charges = _charges(session, content, mechanism, with_sound=with_sound)
            return session.append(
                "reserve",
                {
                    "member": member,
                    "token": session.token_of(content.fingerprint),
                    "mechanism": mechanism.name,
                    "fields": mechanism.fields(),
                    "shapes": [list(shape) for shape in content.shapes],
                    "with_sound": with_sound,
                    "charges": charges,
                },
            )

    def quote_run(self, run: Run) -> None:
        """Raise what `reserve_run` would raise, and spend nothing."""
        with self._store.session() as session:
            runs.payload_of(session, Book.replay(session.entries), run)

    def reserve_run(self, run: Run) -> LedgerEntry:
        """Charge everyone whose recordings a run learns from, or nobody.

        A run that was charged before and has no output yet is taken up, not charged again.

        Raises:
            BudgetExceeded: if somebody cannot afford it.
            BadInput: if a recording is in no account.
            ValueError: if an account is of a kind that a run cannot charge.
        """
        with self._store.session() as session:
            book = Book.replay(session.entries)
            entry = runs.standing(session, book, run)
            return entry or session.append("reserve", runs.payload_of(session, book, run))

    def settle(self, receipt: Receipt) -> None:
        """Record which output a reservation is for; saying it twice changes nothing.

        Raises:
            WrongReceipt: if its spend is not in this ledger, or has another output already.
        """
        with self._store.session() as session:
            if _entry_of(session.entries, receipt) is None:
                raise WrongReceipt(
                    "Expected a receipt whose spend is in this ledger, got one of entry "
                    f"{receipt.ledger_sequence}, which is missing or is another release; settle it "
                    "with the ledger that was charged."
                )
            known = Book.replay(session.entries).settled.get(receipt.ledger_sequence or 0)
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
                session.append("settle", payload)

    def vouches_for(self, receipt: Receipt, value: Value | Content) -> bool:
        """Whether a receipt's spend was recorded here, for this very content."""
        with self._store.session() as session:
            entry = _entry_of(session.entries, receipt)
            token = session.token_of(Content.of(value).fingerprint)
        return entry is not None and token is not None and entry.payload.get("token") == token

    def count_members(self, contents: Iterable[Content]) -> int:
        """How many of these are in an account, and so not to be used as if they were public."""
        with self._store.session() as session:
            return sum(session.member_of(each.fingerprint) is not None for each in contents)

    def accept_clock(self) -> LedgerEntry:
        """Go on with the present time although the last entry is of a later one.

        For a clock that was once ahead. The entry says so for good; which entries there are is
        checked as before.

        Raises:
            ValueError: if the clock is not behind.
        """
        with self._store.session() as session:
            last = session.entries[-1].time if session.entries else ""
            entry = session.append(CLOCK, {"before": last})
            if entry.time >= last:
                raise ValueError(
                    "Expected a clock that is behind the last entry, got one that is not; there is "
                    "nothing to accept."
                )
        return entry

    def entries(self) -> list[LedgerEntry]:
        """Everything that was written, verified."""
        with self._store.session() as session:
            return list(session.entries)

    def book(self) -> Book:
        """Everything that follows from it."""
        return Book.replay(self.entries())

    def strangers(self, receipts: list[Receipt]) -> list[Receipt]:
        """Receipts whose entry is missing, is another release, or has another output already."""
        entries, outputs = self.entries(), dict(self.book().settled)
        found = []
        for receipt in receipts:
            if receipt.ledger_sequence is None:
                continue
            digest = outputs.setdefault(receipt.ledger_sequence, receipt.output_sha256)
            if _entry_of(entries, receipt) is None or digest != receipt.output_sha256:
                found.append(receipt)
        return found


def _entry_of(entries: list[LedgerEntry], receipt: Receipt) -> LedgerEntry | None:
    place = receipt.ledger_sequence or 0
    if not 1 <= place <= len(entries):
        return None
    entry = entries[place - 1]
    is_its = (
        entry.kind == "reserve"
        and entry.head == receipt.ledger_head
        and entry.payload["mechanism"] == receipt.mechanism
        and entry.payload["fields"] == receipt.fields
        and entry.payload.get("with_sound", receipt.kept_sound) == receipt.kept_sound
    )
    return entry if is_its else None


def _quoted(
    session: Session, content: Content, mechanism: Mechanism, with_sound: bool
) -> Exception | None:
    """Why it cannot be reserved; if it can, the session remembers it and the disk does not."""
    try:
        charges = _charges(session, content, mechanism, with_sound=with_sound)[1]
    except (ValueError, RuntimeError) as error:
        return error
    session.entries.append(LedgerEntry(0, "", "reserve", {"charges": charges}, ""))
    return None


def _charges(
    session: Session, content: Content, mechanism: Mechanism, *, with_sound: bool
) -> tuple[str, list[dict[str, Any]]]:
    """Who is charged what for a release of this content; all of it fits."""
    book = Book.replay(session.entries)
    member = session.member_of(content.fingerprint)
    accounts = book.accounts_of(member) if member is not None else []
    if member is None or not accounts:
        raise BadInput(
            "Expected a file that is in an account of this ledger; add it first with: "
            "masquerade ledger add"
        )
    charges: list[dict[str, Any]] = []
    for account in accounts:
        event = joining.event_for(mechanism, content.shapes, account, with_sound=with_sound)
        for holder in book.holders[account.name, member]:
            charges += book.charge(account, holder, [event])
    return member, charges
