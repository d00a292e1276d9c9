"""Published files: which they are, and whether each is the one that its receipt describes."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from masquerade import __version__, catalog
from masquerade._formatting import escape_control
from masquerade.errors import BadInput, SignatureMissing
from masquerade.events import NoGuaranteeDpEvent, event_to_json
from masquerade.guarantee import Guarantee
from masquerade.io import atomic, signatures, video
from masquerade.io.signatures import Signature
from masquerade.io.video import probe
from masquerade.io.video.formats import MAX_PIXELS
from masquerade.mechanism import Mechanism, Shapes
from masquerade.publish.learned import TRAINING_LIST_SUFFIX as PRIVATE_LIST
from masquerade.publish.sources import ReadLimits, probe_recording
from masquerade.receipt import SUFFIX, Receipt, receipt_path, sidecar_path
from masquerade.training.method import promise_from
from masquerade.wording import explain

_MAX_PACKING_RATIO = (
    64  # noise does not pack: how many times its size a release unpacks to, at most
)
_SAMPLE_FRAMES, _MAX_SAMPLE_NUMBERS = 8, 1 << 26  # of a film's frames some are looked at


def list_published_files(paths: Iterable[Path | str]) -> list[Path]:
    """The files themselves, and of folders all that is in them and was published.

    Receipts, signatures and private lists of what models learned from were not.

    Raises:
        BadInput: if a folder holds none.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = [one for one in sorted(path.rglob("*")) if _is_published(one, path)]
        if not inside:
            raise BadInput(f"Expected published files in {path}, got none; is this the folder?")
        found += inside
    return found


def list_private_lists(paths: Iterable[Path | str]) -> list[Path]:
    """Private lists of what models learned from that stand in folders to be published."""
    folders = [path for path in map(Path, paths) if path.is_dir()]
    return [one for folder in folders for one in sorted(folder.rglob(f"*{PRIVATE_LIST}"))]


def list_warnings(private: Iterable[Path]) -> list[str]:
    """A line for each of these lists."""
    return [f"! {path} is PRIVATE: take it out before you publish." for path in private]


def _is_published(path: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    is_beside = SUFFIX in path.name or path.name.endswith(PRIVATE_LIST)
    return path.is_file() and not is_hidden and not is_beside and not _is_companion(path)


def _is_companion(path: Path) -> bool:
    """Whether another file's receipt vouches for it; that file is checked, and this one with it."""
    if receipt_path(path).exists():
        return False
    stem = path.name.partition(".")[0]
    for beside in path.parent.glob(f"{glob.escape(stem)}*{SUFFIX}"):
        with contextlib.suppress(OSError, ValueError):
            named = Receipt.from_json(beside.read_text(encoding="utf-8")).along
            target = beside.with_name(beside.name.removesuffix(SUFFIX))
            if path in [sidecar_path(target, suffix) for suffix in named]:
                return True
    return False


def compare_with_file(receipt: Receipt, promise: object, path: Path) -> bool | None:
    """Refuse a file of other shapes: a guarantee depends on them; a model states others.

    Returns:
        Whether it looks like an output of the mechanism; None where nobody can say.
    """
    if receipt.mechanism in catalog.list_entries("training"):
        if path.suffix != ".safetensors":
            raise BadInput(f"Expected a model (.safetensors) by its receipt, got {path.name}.")
        return None
    looks = _FrameSample(receipt)
    try:
        found = _read_shapes(path, _make_limits(receipt.shapes, path), looks)
    except ValueError as error:
        raise BadInput(f"Expected a file that can be released, got another: {error}") from error
    if receipt.shapes not in found:
        raise BadInput(
            f"Expected {path.name} to hold numbers of shape {_format_shapes(receipt.shapes)}, as "
            "its "
            f"receipt says, got {_format_shapes(found[0])}; the receipt is of another file, or "
            "was edited."
        )
    if not looks.frames or not isinstance(promise, Mechanism):
        return None
    return promise.is_appearance_released(looks.frames, receipt.shapes[0], receipt.public_seeds)


class _FrameSample:
    """Some frames of a film, from its first to its last; no more than fit, whatever it states."""

    def __init__(self, receipt: Receipt) -> None:
        self.frames: list[np.ndarray] = []
        self._every, self._count = -(-receipt.shapes[0][0] // _SAMPLE_FRAMES), 0
        self._numbers_left = _MAX_SAMPLE_NUMBERS

    def keep_frame(self, frame: np.ndarray) -> None:
        """Keep it if it is one of those."""
        if self._count % self._every == 0 and self._numbers_left > 0:
            self.frames.append(frame)
            self._numbers_left -= frame.size
        self._count += 1


def check_companions(receipt: Receipt, path: Path) -> None:
    """What was published with a file must stand beside it, unchanged."""
    for suffix, digest in receipt.along.items():
        other = sidecar_path(path, suffix)
        if not other.is_file():
            raise BadInput(
                f"Expected {other.name} beside {path.name}, with which it was released; it is gone."
            )
        with other.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise BadInput(
                    f"Expected {other.name} to be the file that was released with {path.name}; it "
                    "was changed."
                )


def _make_limits(shapes: Shapes, path: Path) -> ReadLimits:
    """As large as the receipt says, where a file of that size on disk may well be."""
    usual, size = ReadLimits(), path.stat().st_size
    numbers = sum(map(math.prod, shapes))
    pixels = max(math.prod(shape[1:3]) for shape in shapes)
    return ReadLimits(
        max_pixels=min(max(usual.max_pixels, pixels), MAX_PIXELS),
        max_bytes=max(usual.max_bytes, min(8 * numbers, _MAX_PACKING_RATIO * size)),
    )


def _read_shapes(path: Path, limits: ReadLimits, sample: _FrameSample) -> list[Shapes]:
    """The shapes a file may state; a .csv does not tell a heading, nor one axis from a column."""
    if video.is_video(path):
        return [(probe.probe(path, max_pixels=limits.max_pixels, see=sample.keep_frame).shape,)]
    if path.suffix.lower() != ".csv":
        return [probe_recording(path, limits=limits).shapes]
    tables = []
    for heading in (False, True):
        with contextlib.suppress(BadInput):
            tables.append(probe_recording(path, heading=heading, limits=limits).shapes)
    if not tables:
        raise BadInput(f"Expected numbers in {path.name}; there are none.")
    return tables + [((rows,),) for ((rows, columns),) in tables if columns == 1]


def _format_shapes(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in shapes)


_SIGNER_ADVICE = "Name a public key that you trust with --signer PUBLIC.pem."


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """A published file that agrees with its receipt, which anyone could have written.

    Args:
        path: the file.
        receipt: beside it.
        text: the receipt as it stands there.
        signature: of it, if there is one.
        is_appearance_released: whether the file looks like an output of the mechanism, which is but
            a hint; None where nobody can say.
    """

    path: Path
    receipt: Receipt
    text: bytes
    signature: Signature | None
    is_appearance_released: bool | None

    @property
    def printable_name(self) -> str:
        """As it is shown."""
        return escape_control(self.path.name)

    @property
    def is_film(self) -> bool:
        """Whether it can be looked at."""
        return video.is_video(self.path)

    @property
    def signer_sha256(self) -> str | None:
        """The key that has signed it, if the reader named that key."""
        held = self.signature
        return held.key_sha256 if held is not None and held.is_pinned else None

    @property
    def signature_status(self) -> str:
        """Whose word the receipt is."""
        held = self.signature
        if held is None:
            return "consistent with an unsigned receipt: anyone could have written it"
        if held.is_pinned:
            made = self.receipt
            return (
                f"the file that was released on {made.date} by {made.mechanism} (Masquerade "
                f"{made.code_version}), signed by the key {held.key_sha256}, which was named as "
                "trusted"
            )
        if held.is_verified:
            return (
                f"consistent with a receipt signed by an unknown key {held.key_sha256}: anyone can "
                "make a key"
            )
        return (
            f"consistent with a receipt whose signature is not verified: it is said to be by the "
            f"key {held.key_sha256}"
        )

    def explain_guarantee(self, *, is_technical: bool = False) -> list[str]:
        """The guarantee, as a fact or as what the receipt states."""
        made = self.receipt
        first, *others = explain(made.guarantee, is_technical=is_technical)
        if self.signer_sha256 is None:
            version = f"Masquerade {made.code_version}"
            first = f"The receipt states ({made.mechanism}, {made.date}, {version}): {first}"
        return [first, *others]

    @property
    def appearance_doubt(self) -> str:
        """What the file itself says against its receipt; usually nothing."""
        if self.is_appearance_released is not False:
            return ""
        return (
            f"It does not look like an output of {self.receipt.mechanism}: it shows what that "
            "takes away. (Looks are a hint; they can be forged.)"
        )


def check_receipt(path: Path | str, *, signer: Path | str | None = None) -> Receipt:
    """The receipt of a published file, if file, receipt and mechanism agree.

    All of it anyone could have written: only a signature or a ledger says who did.

    Args:
        path: the published file; its receipt stands beside it.
        signer: a public key in PEM that must have signed the receipt.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
        SignatureMissing: if that key has not signed it.
    """
    signers = () if signer is None else (signer,)
    return read_checked(path, signers=signers, is_strict=bool(signers)).receipt


def read_checked(
    path: Path | str, *, signers: Sequence[Path | str] = (), is_strict: bool = False
) -> CheckedFile:
    """What is known of a published file, if file, receipt and mechanism agree.

    Compared are the file's SHA-256 with the receipt's, the shapes of what it holds with those
    stated, the stated guarantee and event with those that the mechanism gives for these fields and
    shapes, every invariant of the nouns, and a signature with what was signed.

    Args:
        path: the published file; its receipt stands beside it.
        signers: public keys in PEM that the reader trusts.
        is_strict: whether one of them must have signed.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
        SignatureMissing: if a signature is needed, and is not there.
    """
    path = Path(path)
    beside = receipt_path(path)
    if not path.is_file():
        raise BadInput(f"Expected a published file at {path}; there is none.")
    if not beside.is_file():
        raise BadInput(f"Expected a receipt at {beside}; nothing is known about {path.name}.")
    text = beside.read_bytes()  # once: what is verified is what is read
    signed = signatures.check_signature(beside, text, signers=map(Path, signers))
    try:
        receipt = Receipt.from_json(text.decode())
    except ValueError as error:  # it is not text, or no receipt
        raise BadInput(f"Expected a receipt at {beside}; it cannot be one: {error}") from error
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != receipt.output_sha256:
        raise BadInput(f"Expected {path.name} to be the file that was released; it was changed.")
    receipt = _compare_with_mechanism(receipt)
    looks = compare_with_file(receipt, make_promise(receipt), path)
    check_companions(receipt, path)
    found = CheckedFile(
        path=path, receipt=receipt, text=text, signature=signed, is_appearance_released=looks
    )
    if is_strict and found.signer_sha256 is None:
        raise SignatureMissing(
            f"Expected a signature by a key that you named, got {path.name}, which is "
            f"{found.signature_status}. {_SIGNER_ADVICE}"
        )
    return found


def sign_receipt(path: Path | str, key: Path | str) -> str:
    """Sign the receipt of a published file, once it is found good; give the key's fingerprint.

    Args:
        path: the published file; the signature stands beside its receipt.
        key: a private Ed25519 key in PEM.
    """
    return _sign_checked(Path(path), signatures.load_named_key(Path(key)))


def _compare_with_mechanism(receipt: Receipt) -> Receipt:
    """The receipt, in the words of this version, if it promises what the mechanism does."""
    try:
        plan = make_promise(receipt).plan(receipt.shapes)
    except ImportError:
        raise
    except Exception as error:  # its fields may be anything
        raise BadInput(f"Expected a mechanism and fields that we know; {error}") from error
    is_rehearsal = receipt.is_rehearsal
    try:
        guarantee = plan.guarantee.as_released(
            with_sound=receipt.kept_sound,
            with_times=receipt.kept_times,
            is_rehearsal=is_rehearsal,
        )
    except ValueError as error:
        raise BadInput(f"Expected a release that can have been made; {error}") from error
    event = NoGuaranteeDpEvent("rehearsal") if is_rehearsal else plan.event
    is_ours = receipt.code_version == __version__
    is_same = _are_events_equal(event_to_json(receipt.dp_event), event_to_json(event))
    if not is_same or not _promises_no_more(receipt.guarantee, guarantee, is_ours=is_ours):
        version = "" if is_ours else f" by version {receipt.code_version}, which this one is not"
        raise BadInput(
            f"Expected the guarantee that {receipt.mechanism} gives for these fields; the receipt "
            f"states another one. It was edited, or written{version or ' by another program'}."
        )
    return receipt if is_ours else replace(receipt, guarantee=guarantee)


def make_promise(receipt: Receipt) -> Any:
    """The mechanism, or the method of training, that has the receipt's name and fields."""
    if receipt.mechanism in catalog.list_entries("training"):
        return promise_from(receipt.mechanism, receipt.fields)
    return type(catalog.make_example("mechanisms", receipt.mechanism))(**receipt.fields)


def _promises_no_more(stated: Guarantee, own: Guarantee, *, is_ours: bool) -> bool:
    """Whether a promise is that one, or promises less.

    Of the attacker's power it may say more, or nothing; the last digit depends on the machine's
    arithmetic. Another version may have other words, and an epsilon that is not as tight; its words
    are then not repeated.
    """
    if stated.power is not None and stated.detection_rate < own.detection_rate - 2e-4:
        return False
    if is_ours:
        return stated == replace(own, power=stated.power)
    proved = [
        (each.kind, each.unit, each.relation, each.delta, each.epsilon is None, each.estimate)
        for each in (stated, own)
    ]
    return proved[0] == proved[1] and (stated.epsilon or 0.0) >= (own.epsilon or 0.0)


def _are_events_equal(one: Any, other: Any) -> bool:
    """Equal events, up to what two processors make of one search for the noise.

    It divides small differences by each other, so their roundings of 1e-16 become some 1e-9. A
    millionth moves no decimal of an epsilon that is stated, and the guarantee must be equal.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _are_events_equal(one[key], other[key]) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_events_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)


def _sign_checked(path: Path, key: Ed25519PrivateKey) -> str:
    """Sign what was checked, and nothing that took its place since."""
    text, beside = read_checked(path).text, receipt_path(path)
    atomic.write_whole(signatures.signature_path(beside), signatures.sign_bytes(text, key))
    return signatures.fingerprint_key(key.public_key())
