"""Publish a recording: an array, a signal or a file, with its receipt.

The order is probe, reserve, apply, write, receipt, settle. The spend is on disk before the
mechanism runs, and the receipt is in place before the output gets its final name: whatever is cut
off in between, no output ever stands without its receipt and its recorded spend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tyro.conf import Positional

from masquerade import _json, catalog
from masquerade.doors import outputs
from masquerade.doors.answer import Answer
from masquerade.doors.progress import waiting
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.guarantee import explain
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism, Shapes, Value, shapes_of
from masquerade.noise import Noise
from masquerade.receipt import Receipt, Release, canonical_sha256, write_receipt


def make_mechanism(name: str, **fields: Any) -> Mechanism:
    """The mechanism of that name with these fields.

    Example:
        >>> make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame").name
        'gaussian_noise'
    """
    mechanism: Mechanism = type(catalog.example("release", name))(**fields)
    return mechanism


def release_value(
    value: Value,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
) -> Release[Value]:
    """Release an array, a tuple of arrays (jointly), a `Signal` or a `Video`.

    Args:
        value: the private input; it is left alone.
        mechanism: what to do with it.
        noise: where the noise comes from; by default the operating system.
        ledger: charged before the mechanism runs, if one is given.
    """
    noise = noise or Noise()
    mechanism.guarantee(shapes_of(value))
    mechanism.check(value)
    charged = _reserve(ledger, value, mechanism, noise)
    published = mechanism.apply(value, noise)
    receipt = write_receipt(
        mechanism,
        shapes=shapes_of(value),
        noise=noise,
        output_sha256=canonical_sha256(published),
        **charged,
    )
    if ledger is not None:
        ledger.settle(receipt)
    return Release(value=published, receipt=receipt)


def release_file(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    heading: bool = False,
    if_standing: outputs.IfStanding = outputs.IfStanding.REFUSE,
) -> Release[Path]:
    """Release a .npy, .npz or .csv file; the receipt is written beside the output.

    Releasing twice spends twice, so an output that stands there is refused. Under a ledger one
    that was made from this very file is recognised and left alone; without a ledger nobody can
    tell what it was made from, and ``if_standing`` decides. A rehearsal is written as
    ``NAME.rehearsal.SUFFIX``.

    Args:
        source: the private file.
        target: the output; its receipt stands beside it.
        mechanism: what to do.
        noise: where the noise comes from; by default the operating system.
        ledger: charged before the mechanism runs, if one is given.
        heading: whether a .csv begins with the names of its columns, which are published.
        if_standing: refuse, resume (keep an output of the same mechanism and shape) or overwrite.

    Raises:
        BadInput: if the source cannot be used.
        BudgetExceeded: if the ledger cannot afford it.
        FileExistsError: if the target stands there without a receipt of this very release.
    """
    noise = noise or Noise()
    source, target = Path(source), outputs.final_name(Path(target), noise)
    table = outputs.probe(source, target, heading=heading)
    value = table.arrays if table.names else table.arrays[0]
    mechanism.guarantee(shapes_of(value))
    mechanism.check(value)
    with atomic.alone(target):
        if target.exists() and if_standing is not outputs.IfStanding.OVERWRITE:
            is_trusted = if_standing is outputs.IfStanding.RESUME
            receipt = outputs.standing(target, mechanism, value, ledger, is_trusted=is_trusted)
        else:
            charged = _reserve(ledger, value, mechanism, noise)
            try:
                with waiting("adding noise", seconds=_seconds(shapes_of(value))):
                    published = mechanism.apply(value, noise)
                receipt = outputs.write(target, table, published, mechanism, noise, charged)
            except KeyboardInterrupt as stop:
                spent = " Its spend is recorded and stays." * bool(charged)
                raise KeyboardInterrupt(f"Interrupted; nothing was published.{spent}") from stop
        if ledger is not None:
            _settle(ledger, receipt, target)
    return Release(value=target, receipt=receipt)


def _reserve(
    ledger: Ledger | None, value: Value, mechanism: Mechanism, noise: Noise
) -> dict[str, Any]:
    """What the receipt says of the ledger; the spend is on disk when this returns."""
    if ledger is None:
        return {}
    if noise.is_rehearsal:
        raise ValueError(
            "Expected live noise under a ledger, got a rehearsal; leave out the seed or the ledger."
        )
    reservation = ledger.reserve(value, mechanism)
    return {"ledger_sequence": reservation.sequence, "ledger_head": reservation.head}


def _settle(ledger: Ledger, receipt: Receipt, target: Path) -> None:
    """Record that the output stands; also where a crash came between the output and this."""
    try:
        ledger.settle(receipt)
    except BadInput as error:
        raise BadInput(
            f"{target} stands and its spend is recorded, but that it stands could not be: {error} "
            "Run the same command again to settle it; nothing more is spent."
        ) from error


@dataclass(frozen=True, kw_only=True)
class ReleaseFile:
    """Publish a file with a privacy guarantee and a receipt.

    Args:
        source: the private file (.npy, .npz or .csv).
        target: where the publishable file goes; its receipt stands beside it.
        heading: the .csv begins with names of columns; they are published as they are.
        resume: keep an output of the same mechanism that stands there; nothing is spent.
        overwrite: replace an output that stands there; this spends again.
        dry_run: print the guarantee and the noise, and write nothing.
        ledger: charge this ledger (a path, or postgresql://...) before anything is released.
        rehearsal_seed: reproducible noise that protects nothing; the output's name says so.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("mechanism", "release")

    source: Positional[Path]
    target: Positional[Path]
    heading: bool = False
    resume: bool = False
    overwrite: bool = False
    dry_run: bool = False
    ledger: str | None = None
    rehearsal_seed: int | None = None

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise ValueError("Expected one of --resume and --overwrite, got both.")

    def run(self, mechanism: Mechanism) -> Answer:
        """Release, or say what a release would promise."""
        noise = Noise(seed=self.rehearsal_seed)
        if self.dry_run:
            return self._preview(mechanism, noise)
        stood = outputs.final_name(self.target, noise).exists() and not self.overwrite
        done = release_file(
            self.source,
            self.target,
            mechanism,
            noise=noise,
            ledger=None if self.ledger is None else Ledger(self.ledger),
            heading=self.heading,
            if_standing=self._if_standing(),
        )
        said = f"{done.value} stood there already with this receipt; nothing was spent." * stood
        return Answer(
            data={
                "output": str(done.value),
                "receipt": str(outputs.receipt_path(done.value)),
                "already_done": stood,
                "guarantee": _json.encode(done.receipt.guarantee),
            },
            lines=[
                said or f"Wrote {done.value} and its receipt.",
                *explain(done.receipt.guarantee),
            ],
        )

    def _if_standing(self) -> outputs.IfStanding:
        if self.resume:
            return outputs.IfStanding.RESUME
        return outputs.IfStanding.OVERWRITE if self.overwrite else outputs.IfStanding.REFUSE

    def _preview(self, mechanism: Mechanism, noise: Noise) -> Answer:
        target = outputs.final_name(self.target, noise)
        table = outputs.probe(self.source, target, heading=self.heading)
        value = table.arrays if table.names else table.arrays[0]
        shapes = shapes_of(value)
        mechanism.check(value)
        if self.ledger is not None:
            Ledger(self.ledger).quote(value, mechanism)
        guarantee = mechanism.guarantee(shapes)
        guarantee = guarantee.as_rehearsal() if noise.is_rehearsal else guarantee
        error = mechanism.expected_error(shapes)
        seconds = _seconds(shapes)
        return Answer(
            data={
                "guarantee": _json.encode(guarantee),
                "expected_error": error,
                "expected_seconds": seconds,
            },
            lines=[
                "Nothing was written.",
                *(["The ledger can afford it."] if self.ledger is not None else []),
                *explain(guarantee),
                f"Expected error of each number: {error:.7g} (standard deviation).",
                f"Expected time: about {max(seconds, 0.1):.1f} s.",
            ],
        )


def _seconds(shapes: Shapes) -> float:
    """About how long noise for this many numbers takes."""
    return sum(map(math.prod, shapes)) * 1e-7


COMMAND = ReleaseFile
