"""`Receipt` and `Release`: nothing leaves the house without one.

A receipt is public. It holds nothing computed from the private input: no hash of it, no name, no
path, no quality figure. A hash of the input is an exact function of it; with it epsilon would be
infinite.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from masquerade import __version__, _json
from masquerade.errors import BadInput
from masquerade.events import (
    DpEvent,
    NoGuaranteeDpEvent,
    NonPrivateDpEvent,
    event_from_json,
    event_to_json,
)
from masquerade.guarantee import Guarantee, GuaranteeKind
from masquerade.mechanism import Plan, Shapes, Value, arrays_of
from masquerade.noise import Noise

FORMAT = 1
SUFFIX = ".receipt.json"
_MAX_ARRAY_SIZE = 1 << 46  # of one array: weeks of film; more would only keep a reader busy
Published = TypeVar("Published")


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What was done, what is promised for it, and which output it belongs to.

    Args:
        mechanism: the mechanism's name.
        fields: its public fields.
        shapes: the public shapes of the arrays released.
        guarantee: the promise.
        event: the same for an accountant, as plain values.
        output_sha256: of the released file's bytes; in Python, of the canonical .npy bytes.
        random_source: where the noise came from.
        is_rehearsal: whether it was seeded; then the guarantee is none.
        code_version: of Masquerade.
        date: UTC day of the release.
        is_exact: whether a video was written without loss.
        kept_sound: whether the sound of a video was copied along, unprotected.
        kept_times: whether the frames of a video kept times of their own, which are public.
        public_seeds: of public randomness that the mechanism drew, such as a projection.
        ledger_sequence: number of the entry in the ledger, if one was charged.
        ledger_head: hash of the ledger after that entry.
        along: SHA-256 of the files that were published with the output, by their suffixes.
        counted: numbers that a heuristic states of the private input itself; its guarantee, which
            is none, says so.
        format: of this receipt.
    """

    mechanism: str
    fields: dict[str, Any]
    shapes: Shapes
    guarantee: Guarantee
    event: dict[str, Any]
    output_sha256: str
    random_source: str
    is_rehearsal: bool
    code_version: str
    date: str
    is_exact: bool = False
    kept_sound: bool = False
    kept_times: bool = False
    public_seeds: tuple[int, ...] = ()
    ledger_sequence: int | None = None
    ledger_head: str | None = None
    along: dict[str, str] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(
                f"Expected a receipt of format {FORMAT}, got format={self.format}; another version "
                "of Masquerade wrote it: install that one, or a newer one."
            )
        if self.is_rehearsal and self.guarantee.kind is not GuaranteeKind.NONE:
            raise ValueError(
                "Expected no guarantee for a rehearsal, got kind "
                f"{self.guarantee.kind.value}; seeded noise protects nothing."
            )
        if self.is_rehearsal != self.random_source.startswith("rehearsal"):
            raise ValueError(
                f"Expected is_rehearsal to agree with the random source, got "
                f"{self.is_rehearsal} and {self.random_source!r}."
            )
        for axes in self.shapes:
            if any(size < 0 for size in axes) or math.prod(axes) > _MAX_ARRAY_SIZE:
                raise ValueError(f"Expected shapes of recordings that can exist, got {axes}.")
        head = () if self.ledger_head is None else (self.ledger_head,)
        for digest in (self.output_sha256, *self.along.values(), *head):
            if not re.fullmatch("[0-9a-f]{64}", digest):
                raise ValueError(f"Expected a SHA-256, got {digest!r}.")
        self._check_circumstances()
        for suffix in self.along:
            if not re.fullmatch(r"(\.[a-z0-9]+)+", suffix) or suffix.endswith(SUFFIX):
                raise ValueError(f"Expected suffixes of files, such as .masks.npz, got {suffix!r}.")
        if self.counted and self.guarantee.kind not in (
            GuaranteeKind.HEURISTIC,
            GuaranteeKind.NONE,
        ):
            raise ValueError("Expected no numbers of the private input beside a guarantee.")
        if any(type(count) is not int or count < 0 for count in self.counted.values()):
            raise ValueError(f"Expected counts of 0 and more, got counted={self.counted}.")
        proves_nothing = isinstance(self.dp_event, NoGuaranteeDpEvent | NonPrivateDpEvent)
        if proves_nothing != (self.guarantee.epsilon is None):
            raise ValueError(
                "Expected an event that can be accounted exactly beside an epsilon, got "
                f"{self.event} and epsilon={self.guarantee.epsilon}."
            )

    def _check_circumstances(self) -> None:
        """Refuse a day, a version, an entry or a seed that cannot be one."""
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}[0-9a-z.+]{0,40}", self.code_version):
            raise ValueError(f"Expected a version of Masquerade, got {self.code_version!r:.80}.")
        try:
            is_day = datetime.date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            is_day = False
        if not is_day:
            raise ValueError(f"Expected a day such as 2026-02-28, got date={self.date!r:.80}.")
        latest = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=2)
        if self.date > latest.isoformat():
            raise ValueError(
                f"Expected a day that has come, got date={self.date}; set the clock right."
            )
        if self.ledger_sequence is not None and self.ledger_sequence < 1:
            raise ValueError(f"Expected ledger_sequence >= 1, got {self.ledger_sequence}.")
        if any(seed < 0 for seed in self.public_seeds):
            raise ValueError(f"Expected public_seeds >= 0, got {self.public_seeds}.")

    @property
    def dp_event(self) -> DpEvent:
        """The event, for an accountant."""
        return event_from_json(self.event)

    def to_json(self) -> str:
        """The receipt as it stands beside the output."""
        held = dict(_json.encode_noun(self))
        for name in ("along", "counted", "kept_times"):  # receipts without them are those of before
            if not held[name]:
                del held[name]
        return json.dumps(held, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read a receipt; every invariant is checked again.

        Raises:
            BadInput: if the text cannot be one, whatever it is.
        """
        try:
            data = json.loads(
                text, parse_constant=_refuse_constant, object_pairs_hook=refuse_duplicate_keys
            )
            return _json.decode_noun(cls, data)
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            raise BadInput(f"Expected a receipt; this cannot be one: {error}") from error
        except RecursionError as error:
            raise BadInput("Expected a receipt, got a text that nests too deeply.") from error


def refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once: of two, each reader may take another."""
    counts = Counter(key for key, _ in pairs)
    if len(counts) < len(pairs):
        raise ValueError(f"it says {counts.most_common(1)[0][0]!r:.80} more than once")
    return dict(pairs)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"it holds {constant}, which is no number")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(Generic[Published]):
    """A published value and the receipt that goes with it.

    Args:
        value: what may be seen, or where it stands.
        receipt: that goes with it.
        stood: whether it stood there already; then nothing was spent.
        signed_by: SHA-256 of the key that has signed the receipt's file.
        signing_notes: what its owner has to know of that, such as that a key was made.
        plan: what was promised beforehand, and what is to be expected of it.
    """

    value: Published
    receipt: Receipt
    stood: bool = False
    signed_by: str | None = None
    signing_notes: tuple[str, ...] = ()
    plan: Plan | None = None


class Promise(Protocol):
    """A mechanism, a method of training, or whatever else states a promise beforehand."""

    @property
    def name(self) -> str:
        """In the command line, the docs and the receipt."""

    def encode_fields(self) -> dict[str, Any]:
        """The public fields, as plain JSON values."""

    def plan(self, shapes: Shapes) -> Plan:
        """What is promised for inputs of these shapes."""


def write_receipt(
    promise: Promise,
    plan: Plan,
    *,
    shapes: Shapes,
    noise: Noise,
    output_sha256: str,
    kept_sound: bool = False,
    kept_times: bool = False,
    **others: Any,
) -> Receipt:
    """The receipt of one output, with its other fields; a seeded noise makes it a rehearsal's."""
    is_rehearsal = noise.is_rehearsal
    return Receipt(
        mechanism=promise.name,
        fields=promise.encode_fields(),
        shapes=shapes,
        guarantee=plan.guarantee.as_released(
            with_sound=kept_sound, with_times=kept_times, is_rehearsal=is_rehearsal
        ),
        event=event_to_json(NoGuaranteeDpEvent("rehearsal") if is_rehearsal else plan.event),
        output_sha256=output_sha256,
        random_source=noise.source,
        is_rehearsal=is_rehearsal,
        code_version=__version__,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        kept_sound=kept_sound,
        kept_times=kept_times,
        public_seeds=noise.take_public_seeds(),
        **others,
    )


def receipt_path(target: Path) -> Path:
    """Where the receipt of an output stands: its full name plus a suffix."""
    return target.with_name(target.name + SUFFIX)


def sidecar_path(target: Path, suffix: str) -> Path:
    """Where a file stands that is published with an output: its name with another suffix.

    Example:
        >>> sidecar_path(Path("public/ward.mp4"), ".masks.npz").name
        'ward.masks.npz'
    """
    return target.with_suffix(suffix)


def canonical_sha256(value: Value) -> str:
    """SHA-256 over the .npy bytes of a value's arrays, in order."""
    digest = hashlib.sha256()
    for array in arrays_of(value):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        digest.update(buffer.getvalue())
    return digest.hexdigest()
