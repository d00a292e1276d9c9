"""Where an output goes: what can be refused beforehand, writing it, recognising one that stands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from masquerade.doors.receipt import check_receipt
from masquerade.doors.sources import Saving, Source
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.files.signature import SUFFIX as SIGNATURE
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.receipt import SUFFIX, Receipt


class IfStanding(StrEnum):
    """What to do when the output stands there already."""

    REFUSE = "refuse"
    RESUME = "resume"
    OVERWRITE = "overwrite"


def receipt_path(target: Path) -> Path:
    """Where the receipt of an output stands: its full name plus a suffix."""
    return target.with_name(target.name + SUFFIX)


def final_name(target: Path, noise: Noise) -> Path:
    """The output's name; a rehearsal says so in it."""
    return rehearsal_name(target) if noise.is_rehearsal else target


def rehearsal_name(target: Path) -> Path:
    """What a rehearsal's output would be called."""
    return target.with_suffix(f".rehearsal{target.suffix}")


def stamp(path: Path) -> tuple[int, int] | None:
    """Which file stands under a name, by whatever link; another one has another stamp."""
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_dev, held.st_ino


def check_link(path: Path) -> None:
    """Refuse a symbolic link that leads back to itself."""
    try:
        path.resolve()
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"Expected a place for the output, got {path}, a symbolic link that leads back to "
            "itself; remove it, or choose another name."
        ) from error


def check_room(source: Path, target: Path) -> None:
    """Everything about the output's place that can be refused before anything is read."""
    check_link(target)
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    for path in (target, receipt_path(target)):
        if path.exists() and source.exists() and path.samefile(source):  # links, and any case
            raise ValueError(
                f"Expected another name for the output than the input {source}, got {path}."
            )
        if path.is_dir():
            raise ValueError(f"Expected room for a file at {path}; there is a folder.")
        if path.is_symlink() and not path.exists():
            raise ValueError(f"Expected room for a file at {path}; a link to nowhere is there.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise BadInput(f"Expected a folder that can be written, got {target.parent}.") from error


def refuse_stranger(target: Path) -> None:
    """Only what was released makes room for a new release: a file without a receipt may be private.

    Raises:
        FileExistsError: if there is no receipt beside it.
    """
    try:
        Receipt.from_json(receipt_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileExistsError(
            f"{target} stands there without a receipt, so it is no output of ours and is not "
            "replaced. Move it away, or choose another name."
        ) from error


def standing(
    target: Path,
    mechanism: Mechanism,
    source: Source,
    ledger: Ledger | None,
    *,
    saving: Saving,
    is_trusted: bool,
) -> Receipt:
    """The receipt of an output that this very release has made before."""
    remedy = "Choose another name, or --overwrite to release (and spend) again."
    try:
        receipt = check_receipt(target)
    except ValueError as error:
        raise FileExistsError(f"{target} stands there without a good receipt. {remedy}") from error
    same = receipt.mechanism == mechanism.name and receipt.fields == mechanism.fields()
    same = same and (receipt.is_exact, receipt.kept_sound) == (saving.exact, saving.keep_sound)
    if not same or receipt.shapes != source.shapes:
        raise FileExistsError(f"{target} is the output of another release. {remedy}")
    if ledger is not None and not ledger.vouches_for(receipt, source.content):
        raise FileExistsError(
            f"{target} was released from another file or outside this ledger. {remedy}"
        )
    if ledger is None and not is_trusted:
        raise FileExistsError(
            f"{target} stands there with a good receipt; without a ledger nobody can tell which "
            f"file it was made from. --resume to keep it. {remedy}"
        )
    return receipt


def write(
    target: Path,
    writer: Callable[[BinaryIO], None],
    receipt_of: Callable[[str], Receipt],
    *,
    replaces: bool,
) -> Receipt:
    """Both files complete on disk first; then the receipt gets its name, then the output.

    Args:
        target: the output.
        writer: writes it to a stream.
        receipt_of: gives the receipt for the output's SHA-256.
        replaces: whether an output that stands there makes room; otherwise it stays, and
            FileExistsError is raised.
    """
    beside = receipt_path(target)
    if not replaces:  # a run was stopped before its output had its name
        _forget_receipt(beside)
    with atomic.staged(target, writer, replaces=replaces) as (digest, commit):
        receipt = receipt_of(digest)
        text = receipt.to_json().encode()
        with atomic.staged(beside, atomic.writes(text), replaces=replaces) as (_, commit_receipt):
            try:
                if replaces:
                    target.unlink(missing_ok=True)  # never an old output beside a new receipt
                    _forget_receipt(beside)
                commit_receipt()
                commit()
            except BaseException as error:
                has_name = target.exists() and not isinstance(error, FileExistsError)
                if not has_name and (replaces or _holds(beside, text)):
                    _forget_receipt(beside)  # of an output that nobody will see
                raise
    return receipt


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _forget_receipt(beside: Path) -> None:
    beside.unlink(missing_ok=True)
    beside.with_name(beside.name + SIGNATURE).unlink(missing_ok=True)
