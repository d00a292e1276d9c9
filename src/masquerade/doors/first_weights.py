"""What the weights that a run begins with have learned: nobody is laundered through them."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade.doors.receipt import read_checked
from masquerade.doors.splits import is_of_made_up
from masquerade.errors import BadInput
from masquerade.events import DpEvent
from masquerade.files import signing_key
from masquerade.guarantee import Kind
from masquerade.ledger import Ledger
from masquerade.nets.network import Network
from masquerade.receipt import Receipt, receipt_path
from masquerade.train.method import Method
from masquerade.train.model_file import said_of
from masquerade.train.promise import FIRST_WEIGHTS, ORIGINS, promise_from


@dataclass(frozen=True, kw_only=True)
class FirstWeights:
    """The weights that a run begins with.

    Args:
        path: of the file; none where they are random.
        marks: what the receipt says of them.
        receipt: of a model with a guarantee.
    """

    path: Path | None = None
    marks: dict[str, Any] = field(default_factory=dict)
    receipt: Receipt | None = None

    @property
    def origin(self) -> str | None:
        """Where they come from: one of `ORIGINS`; none where they are random."""
        found: str | None = self.marks.get(FIRST_WEIGHTS, {}).get("origin")
        return found

    def owed_to(self, ledger: Ledger | None) -> list[DpEvent]:
        """What a run has to pay for them: all that this ledger was not charged with.

        Where it was, those paid whom the model learned from. What that began with in its turn may
        have learned from others, who pay for it now.
        """
        receipt = self.receipt
        if receipt is None or ledger is None:
            return []
        if not _is_paid(receipt, ledger):
            return [receipt.dp_event]
        before = receipt.fields.get(FIRST_WEIGHTS, {})
        if before.get("origin") != "protected":
            return []
        shapes = tuple(tuple(shape) for shape in before["shapes"])
        return [promise_from(before["mechanism"], before["fields"]).stated(shapes).event]

    def check_same(self) -> None:
        """Refuse a file that was changed since it was looked at."""
        if self.path is not None and _sha256(self.path) != self.marks[FIRST_WEIGHTS]["sha256"]:
            raise BadInput(
                f"Expected {self.path} to stay as it is while a run begins with it; it was "
                "changed. Try again with a copy of it."
            )


def find_first_weights(
    network: Network,
    methods: Sequence[Method],
    *,
    ledger: Ledger | None = None,
    is_accepted: bool = False,
) -> FirstWeights:
    """What is known of the weights of a network that is about to be trained.

    Args:
        network: that begins with them.
        methods: that go on with them.
        ledger: that pays for it.
        is_accepted: whether somebody knows that weights without a guarantee leave nothing promised.

    Raises:
        ValueError: if they would make the promise of a run untrue: if they learned without a
            guarantee, with one of another unit, or from public parts that no account knows of.
    """
    found = _find(network, ledger)
    for method in methods:
        _check(found, method, ledger, is_accepted=is_accepted or method.epsilon == math.inf)
    return found


def _find(network: Network, ledger: Ledger | None) -> FirstWeights:
    path = network.first_weights
    if path is None:
        return FirstWeights()
    if not path.is_file():
        raise BadInput(f"Expected weights at {path}, got nothing; check the name.")
    mark: dict[str, Any] = {"sha256": _sha256(path)}
    receipt = None
    if network.has_own_weights:
        origin = "shipped"
    else:
        origin, receipt = _origin_of(path, ledger)
    mark["origin"] = origin
    if receipt is not None:
        shapes = [list(shape) for shape in receipt.shapes]
        mark |= {"mechanism": receipt.mechanism, "fields": receipt.fields, "shapes": shapes}
    return FirstWeights(path=path, marks={FIRST_WEIGHTS: mark}, receipt=receipt)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _origin_of(path: Path, ledger: Ledger | None) -> tuple[str, Receipt | None]:
    """Of a file that somebody gave; the receipt, if it has a guarantee that somebody vouches for.

    A receipt alone proves nothing: it is this ledger's, or signed by whoever goes on with it.
    """
    said: dict[str, Any] | None = None
    with contextlib.suppress(BadInput):
        said = said_of(path)
    if said is None and not receipt_path(path).is_file():
        return "given", None
    receipt = _vouched_receipt(path, ledger)
    if said is not None and is_of_made_up(said):
        return "given" if receipt is None else "made_up", None
    if said is not None and said.get(FIRST_WEIGHTS) == "given":
        if is_of_made_up(said | {FIRST_WEIGHTS: "random"}):
            return "given", None  # and then from people who never lived
    if receipt is not None and receipt.guarantee.epsilon is not None:
        return "protected", receipt
    return "unprotected", None


def _vouched_receipt(path: Path, ledger: Ledger | None) -> Receipt | None:
    """The receipt of a model, if this ledger has its spend or a key of one's own has signed it."""
    with contextlib.suppress(BadInput):
        checked = read_checked(path)
        receipt, signed = checked.receipt, checked.signature
        is_own = signed is not None and signed.is_verified and signing_key.is_own(signed.key_sha256)
        return receipt if is_own or _is_paid(receipt, ledger) else None
    return None


def _is_paid(receipt: Receipt, ledger: Ledger | None) -> bool:
    """Whether this ledger was charged for a model."""
    has_entry = ledger is not None and receipt.ledger_sequence is not None
    return bool(has_entry and ledger and not ledger.strangers([receipt]))


def _check(
    first: FirstWeights, method: Method, ledger: Ledger | None, *, is_accepted: bool
) -> None:
    is_charged = ledger is not None
    if first.origin == "unprotected" and (is_charged or not is_accepted):
        where = " under a ledger" if is_charged else ""
        other = "" if is_charged else ", or --accept-unprotected-weights, and no epsilon is stated"
        raise ValueError(
            f"Expected first weights that are public or have a guarantee{where}, got {first.path}, "
            f"{ORIGINS['unprotected']}: whoever begins with them still shows from whom they "
            f"learned. Use public weights or --from-scratch{other}."
        )
    if first.receipt is not None:
        before = first.receipt.guarantee
        if ledger and before.kind is Kind.FORMAL_RELAXED and not _is_paid(first.receipt, ledger):
            raise ValueError(
                f"Expected first weights that this ledger was charged for, got {first.path}, which "
                "used a part of its recordings without noise: no account was asked whether that "
                "is public. Train it under this ledger first."
            )
        wanted = (str(method.unit), method.met)
        if (str(before.unit), before.relation) != wanted:
            raise ValueError(
                f"Expected first weights whose guarantee is for one {wanted[0]}, "
                f"{wanted[1].value}, as this run's, got {first.path} for one {before.unit}, "
                f"{before.relation.value}; two such cannot be added up. Train both for the same."
            )
