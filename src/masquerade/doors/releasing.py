"""Publish a recording: an array, a signal, a video or a file, with its receipt.

The order is probe, reserve, apply, write, receipt, settle. The spend is on disk before the
mechanism runs, and the receipt is in place before the output gets its final name: whatever is cut
off in between, no output ever stands without its receipt and its recorded spend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade import _check, catalog
from masquerade.compute import device
from masquerade.doors import expecting, outputs, sources
from masquerade.doors.progress import watching
from masquerade.doors.sources import Limits, Saving, Source
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.ledger.store import OutOfReach
from masquerade.mechanism import Mechanism, Value, shapes_of
from masquerade.noise import Noise
from masquerade.receipt import Receipt, Release, canonical_sha256, write_receipt

_SPENT = "What was reserved for it is spent."


@dataclass(frozen=True, kw_only=True)
class Options:
    """How files are read and written.

    Args:
        heading: whether a .csv begins with the names of its columns, which are published.
        saving: exact or visually lossless output, and whether the sound is kept.
        if_standing: refuse, resume (keep an output of the same mechanism and shape) or overwrite.
        device: cpu or cuda.
        is_watched: whether a progress bar is shown.
        limits: on the size of a file when it is unpacked.
        accept_grey: write a video even where nothing is to be seen in it.
    """

    heading: bool = False
    saving: Saving = field(default_factory=Saving)
    if_standing: outputs.IfStanding = outputs.IfStanding.REFUSE
    device: str = "cpu"
    is_watched: bool = True
    limits: Limits = field(default_factory=Limits)
    accept_grey: bool = False

    def __post_init__(self) -> None:
        chosen = _check.choice(outputs.IfStanding, if_standing=self.if_standing)
        object.__setattr__(self, "if_standing", chosen)


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
    options: Options | None = None,
) -> Release[Path]:
    """Release a video, a picture or an array file; the receipt is written beside the output.

    Releasing twice spends twice, so an output that stands there is refused. Under a ledger one
    that was made from this very file is recognised and left alone; without a ledger nobody can
    tell what it was made from, and ``options.if_standing`` decides. A rehearsal is written as
    ``NAME.rehearsal.SUFFIX``.

    Args:
        source: the private file.
        target: the output; its receipt stands beside it.
        mechanism: what to do.
        noise: where the noise comes from; by default the operating system.
        ledger: charged before the mechanism runs, if one is given.
        options: how files are read, written and treated when they stand there already.

    Raises:
        BadInput: if the source cannot be used.
        BudgetExceeded: if the ledger cannot afford it.
        FileExistsError: if the target stands there without a receipt of this very release.
        ValueError: if nothing is to be seen in the output and ``options`` do not accept that.
    """
    atomic.sweep(Path(target).parent)
    return release_or_recognise(
        Path(source),
        Path(target),
        mechanism,
        noise=noise or Noise(),
        ledger=ledger,
        options=options or Options(),
    )[0]


def release_or_recognise(
    source: Path,
    target: Path,
    mechanism: Mechanism,
    *,
    noise: Noise,
    ledger: Ledger | None,
    options: Options,
) -> tuple[Release[Path], bool]:
    """As `release_file`, and whether the output stood there already."""
    target = outputs.final_name(target, noise)
    outputs.check_room(source, target)
    found = sources.find(source, heading=options.heading, limits=options.limits)
    found.check(mechanism, target, options.saving)
    if options.saving.keep_sound:
        mechanism.guarantee(found.shapes).with_sound()
    with atomic.alone(target), device.on(options.device):
        stood = target.exists() and options.if_standing is not outputs.IfStanding.OVERWRITE
        if target.exists() and not stood:
            outputs.refuse_stranger(target)
        if stood:
            is_trusted = options.if_standing is outputs.IfStanding.RESUME
            receipt = outputs.standing(
                target, mechanism, found, ledger, saving=options.saving, is_trusted=is_trusted
            )
        else:
            if not options.accept_grey and not noise.is_rehearsal:
                expecting.refuse_grey(mechanism, source, found.shapes)
            receipt = _published(found, target, mechanism, noise, options, ledger)
        if ledger is not None:
            _settle(ledger, receipt, target)
    return Release(value=target, receipt=receipt), stood


def _published(
    found: Source,
    target: Path,
    mechanism: Mechanism,
    noise: Noise,
    options: Options,
    ledger: Ledger | None,
) -> Receipt:
    """Reserve, run the mechanism and write; whatever fails after that says what was spent."""
    charged: dict[str, Any] = {}
    old = outputs.stamp(target)
    try:
        charged = _reserve(ledger, found, mechanism, noise, with_sound=options.saving.keep_sound)
        with watching(options.is_watched) as watch:
            return outputs.write(
                target,
                found.writer(mechanism, noise, target, options.saving, watch),
                lambda digest: write_receipt(
                    mechanism,
                    shapes=found.shapes,
                    noise=noise,
                    output_sha256=digest,
                    is_exact=options.saving.exact,
                    kept_sound=options.saving.keep_sound,
                    **charged,
                ),
                replaces=options.if_standing is outputs.IfStanding.OVERWRITE,
            )
    except Exception as error:
        if charged:
            error.add_note(_SPENT)
        raise
    except KeyboardInterrupt as stop:
        spent = f" {_SPENT}" * (ledger is not None)
        raise type(stop)(f"Interrupted; {_left(target, old)}.{spent}") from stop


def _left(target: Path, old: tuple[int, int] | None) -> str:
    """What a stop has left of an output, where an ``old`` one may have stood before."""
    now = outputs.stamp(target)
    if now != old:
        return f"{target} stands" if now else f"nothing was published, and the old {target} is gone"
    return "nothing was published" + f"; the old {target} stands" * (old is not None)


def _reserve(
    ledger: Ledger | None,
    value: Value | Source,
    mechanism: Mechanism,
    noise: Noise,
    *,
    with_sound: bool = False,
) -> dict[str, Any]:
    """What the receipt says of the ledger; the spend is on disk when this returns."""
    if ledger is None:
        return {}
    if noise.is_rehearsal:
        raise ValueError(
            "Expected live noise under a ledger, got a rehearsal; leave out the seed or the ledger."
        )
    content = value.content if isinstance(value, Source) else value
    reservation = ledger.reserve(content, mechanism, with_sound=with_sound)
    return {"ledger_sequence": reservation.sequence, "ledger_head": reservation.head}


def _settle(ledger: Ledger, receipt: Receipt, target: Path) -> None:
    """Record that the output stands; also where a crash came between the output and this."""
    try:
        ledger.settle(receipt)
    except OutOfReach as error:
        raise OutOfReach(
            f"{target} stands and its spend is recorded, but that it stands could not be: {error} "
            "Run the same command again to settle it; nothing more is spent."
        ) from error
