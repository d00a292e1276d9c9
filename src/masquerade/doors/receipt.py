"""Tie a published file to its receipt, and the receipt to what the mechanism really promises."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from masquerade import _json, catalog
from masquerade.doors.answer import Answer
from masquerade.errors import BadInput
from masquerade.events import DpEvent, NoGuaranteeDpEvent, event_to_json
from masquerade.guarantee import Guarantee, explain
from masquerade.receipt import SUFFIX, Receipt


def check_receipt(path: Path | str) -> Receipt:
    """The receipt of a published file, if file, receipt and mechanism agree.

    Three things are compared: the file's SHA-256 with the receipt's, the stated guarantee and
    event with those that the mechanism gives for these fields and shapes, and every invariant of
    the nouns.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
    """
    path = Path(path)
    beside = path.with_name(path.name + SUFFIX)
    if not path.is_file():
        raise BadInput(f"Expected a published file at {path}; there is none.")
    if not beside.is_file():
        raise BadInput(f"Expected a receipt at {beside}; nothing is known about {path.name}.")
    try:
        receipt = Receipt.from_json(beside.read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError, json.JSONDecodeError) as error:
        raise BadInput(f"Expected a receipt at {beside}; it cannot be one: {error}") from error
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != receipt.output_sha256:
        raise BadInput(f"Expected {path.name} to be the file that was released; it was changed.")
    _compare_with_mechanism(receipt)
    return receipt


def _compare_with_mechanism(receipt: Receipt) -> None:
    try:
        if receipt.mechanism in catalog.names("train"):
            guarantee, event = _trained(receipt)
        else:
            mechanism = type(catalog.example("release", receipt.mechanism))(**receipt.fields)
            guarantee = mechanism.guarantee(receipt.shapes)
            event = mechanism.event(receipt.shapes)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise BadInput(f"Expected a mechanism and fields that we know; {error}") from error
    if receipt.kept_sound:
        guarantee = guarantee.with_sound()
    if receipt.is_rehearsal:
        guarantee, event = guarantee.as_rehearsal(), NoGuaranteeDpEvent("rehearsal")
    if receipt.guarantee != guarantee or not _alike(receipt.dp_event, event):
        raise BadInput(
            f"Expected the guarantee that {receipt.mechanism} gives for these fields; the receipt "
            "states another one. It was edited, or written by another version."
        )


def _trained(receipt: Receipt) -> tuple[Guarantee, DpEvent]:
    """What the method promises for these public numbers."""
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in receipt.fields.items()
        if name != "mask_sha256"
    }
    if fields["epsilon"] is None:
        fields["epsilon"] = math.inf
    method = type(catalog.example("train", receipt.mechanism))(**fields)
    if getattr(method, "HAS_PUBLIC", False) and "mask_sha256" not in receipt.fields:
        raise ValueError("the masks that it speaks of are not named (mask_sha256)")
    if method.fields() != {name: receipt.fields[name] for name in fields}:
        raise ValueError("some of its fields are missing")
    stated: tuple[Guarantee, DpEvent] = method.stated(receipt.shapes)
    return stated


def _alike(one: DpEvent, other: DpEvent) -> bool:
    """Equal, up to what two processors make of one search for the noise.

    It divides small differences by each other, so their roundings of 1e-16 become some 1e-9. A
    millionth moves no decimal of an epsilon that is stated, and the guarantee must be equal.
    """
    return _close(event_to_json(one), event_to_json(other))


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Tie a published file to its receipt and read the guarantee aloud.

    Args:
        file: the published file; its receipt stands beside it.
    """

    file: Positional[Path]

    def run(self) -> Answer:
        """Check, then explain."""
        receipt = check_receipt(self.file)
        return Answer(
            data={"file": str(self.file), "ok": True, "receipt": _json.encode(receipt)},
            lines=[
                f"{self.file} is the file that was released on {receipt.date} by "
                f"{receipt.mechanism} (Masquerade {receipt.code_version}).",
                *explain(receipt.guarantee),
            ],
        )


COMMANDS = {"check": Check}
