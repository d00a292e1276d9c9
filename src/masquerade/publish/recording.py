"""Publish one recording: an array, a signal, a video or a file, with its receipt."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rich.progress import Progress

from masquerade import _check, catalog
from masquerade import ledger as ledgers
from masquerade.errors import NotHidden
from masquerade.io import arrays, atomic, devices, streams, video
from masquerade.io.video import audio, write
from masquerade.ledger.content import Content
from masquerade.mechanism import (
    FrameByFrame,
    Heuristic,
    Mechanism,
    Plan,
    Shapes,
    TwoPass,
    Value,
    arrays_of,
    shapes_of,
)
from masquerade.mechanisms import expected_view
from masquerade.noise import Noise
from masquerade.progress import make_progress_bars, tell_owner
from masquerade.publish.bills import make_recording_bill
from masquerade.publish.sources import (
    ArrayRecording,
    FilmRecording,
    OutputSettings,
    ReadLimits,
    Recording,
    UnchangedDetector,
    UnchangedReading,
    probe_recording,
)
from masquerade.publish.spine import IfExists, hold_place, publish_output
from masquerade.receipt import Release, canonical_sha256, receipt_path, sidecar_path, write_receipt
from masquerade.recordings import Photo, Video
from masquerade.wording import REPLACED_KEY

_UNCHANGED_WORDS = "a recording that it leaves as it was: it found nobody, or no mask marks anybody"
_NO_AVATAR_WORDS = "a film in which no avatar stands: whoever was found was taken out or blurred"


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """How files are read and written.

    Args:
        heading: whether a .csv begins with the names of its columns, which are published.
        saving: exact or visually lossless output, and whether the sound is kept.
        if_standing: refuse, resume (keep an output of the same mechanism and shape) or overwrite.
        device: cpu or cuda.
        is_watched: whether a progress bar is shown.
        limits: on the size of a file when it is unpacked.
        accept_grey: write what is grey, or noise alone, all the same.
        accept_unhidden: write what a heuristic leaves as it was, since it finds nobody to hide, or
            in which no avatar stands, all the same.
    """

    heading: bool = False
    saving: OutputSettings = field(default_factory=OutputSettings)
    if_standing: IfExists = IfExists.REFUSE
    device: str = "cpu"
    is_watched: bool = True
    limits: ReadLimits = field(default_factory=ReadLimits)
    accept_grey: bool = False
    accept_unhidden: bool = False

    def __post_init__(self) -> None:
        chosen = _check.parse_choice(IfExists, if_standing=self.if_standing)
        object.__setattr__(self, "if_standing", chosen)


def make_mechanism(name: str, **fields: Any) -> Mechanism:
    """The mechanism of that name with these fields.

    Example:
        >>> make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame").name
        'gaussian_noise'
    """
    mechanism: Mechanism = type(catalog.make_example("mechanisms", name))(**fields)
    return mechanism


def release_value(
    value: Value,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: ledgers.Ledger | None = None,
    accept_grey: bool = False,
) -> Release[Value]:
    """Release an array, a tuple of arrays (jointly), a `Signal` or a `Video`.

    Args:
        value: the private input; it is left alone.
        mechanism: what to do with it.
        noise: where the noise comes from; by default the operating system.
        ledger: charged before the mechanism runs, if one is given.
        accept_grey: give what is grey, or noise alone, all the same.

    Raises:
        ValueError: if nothing but noise would be left, and that is not accepted.
    """
    noise, shapes = noise or Noise(), shapes_of(value)
    plan = mechanism.plan(shapes)
    mechanism.check(value)
    if not (accept_grey or noise.is_rehearsal):
        expected_view.refuse_useless(
            mechanism, plan, shapes, is_video=isinstance(value, Video | Photo)
        )
    bill = make_recording_bill(ledger, noise, partial(Content.from_value, value), mechanism)
    bill.reserve_budget()
    try:
        published = mechanism.apply(value, noise)
    except Exception as error:
        if bill.ledger_fields:
            error.add_note(bill.spending_note)
        raise
    digest = canonical_sha256(published)
    receipt = write_receipt(
        mechanism, plan, shapes=shapes, noise=noise, output_sha256=digest, **bill.ledger_fields
    )
    if late := bill.settle_charge(receipt):
        raise late
    return Release(value=published, receipt=receipt, plan=plan)


def release_file(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: ledgers.Ledger | None = None,
    options: FileSettings | None = None,
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
        ValueError: if nothing but noise would be left, and ``options`` do not accept that.
    """
    source, target = Path(source), Path(target)
    noise, options = noise or Noise(), options or FileSettings()
    atomic.remove_dead_files(target.parent)
    return release_swept(source, target, mechanism, noise=noise, ledger=ledger, options=options)


def release_swept(
    source: Path,
    target: Path,
    mechanism: Mechanism,
    *,
    noise: Noise,
    ledger: ledgers.Ledger | None,
    options: FileSettings,
) -> Release[Path]:
    """The same where somebody has swept: if each of many did it, each would look at all others."""
    with hold_place(target, noise=noise, source=source, if_standing=options.if_standing) as place:
        heading, limits, is_charged = options.heading, options.limits, ledger is not None
        found = probe_recording(source, heading=heading, limits=limits, is_charged=is_charged)
        made = make_output(found, mechanism, place.target, options)
        if not (place.keeps_existing or options.accept_grey or noise.is_rehearsal):
            is_video = isinstance(found, FilmRecording)
            expected_view.refuse_useless(mechanism, made.plan, found.shapes, is_video=is_video)
        has_sound = options.saving.keep_sound
        bill = make_recording_bill(
            ledger, noise, lambda: found.content, mechanism, with_sound=has_sound
        )
        with devices.use_device(options.device):
            return publish_output(made, place, noise=noise, bill=bill)


@dataclass(kw_only=True, eq=False)
class _ReleasedOutput:
    """A recording under a mechanism, for `publish.spine`; what cannot be written is refused.

    Args:
        promise: the mechanism.
        target: of the output; its suffix says how it is written.
        options: how else.
    """

    found: Recording
    promise: Mechanism
    target: Path
    options: FileSettings
    shapes: Shapes = field(init=False)  # public, of what is released
    plan: Plan = field(init=False)
    saving_fields: dict[str, Any] = field(init=False)  # what the receipt says of the saving
    companion_suffixes: tuple[str, ...] = field(
        default=(), init=False
    )  # companions of a film, by suffixes

    def __post_init__(self) -> None:
        saving, self.shapes = self.options.saving, self.found.shapes
        self.saving_fields = {"is_exact": saving.exact, "kept_sound": saving.keep_sound}
        self._check_output()

    @abstractmethod
    def _check_output(self) -> None:
        """Plan it, and refuse what cannot be written."""

    def _refuse_unhidden(self, got: str) -> None:
        """Stop a heuristic that hides nobody, before its output has a name; nothing was spent."""
        promise = self.promise
        is_partial = isinstance(promise, Heuristic) and promise.is_partial
        if is_partial and self.options.accept_unhidden:
            tell_owner(f"Published all the same: {got}.")
        elif is_partial:
            raise NotHidden(
                f"Expected {promise.name} to hide somebody, got {got}. Nothing was published. "
                "Look at it: if nobody is there who must be hidden, publish it with --yes (in "
                "Python, Options(accept_unhidden=True)); else choose another mechanism, or cut it."
            )


@dataclass(kw_only=True, eq=False)
class ReleasedTable(_ReleasedOutput):
    """An array file under a mechanism: all at once."""

    found: ArrayRecording

    def _check_output(self) -> None:
        """The mechanism takes the values, and the target's format can hold them."""
        if self.options.saving.keep_sound:
            raise ValueError("Expected a video to keep the sound of, got an array file.")
        self.plan = self.promise.plan(self.shapes)
        self.promise.check(self.found.value)
        arrays.make_writer(self.target, self.found.table)

    def write(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Release all numbers, then write them."""
        numbers = arrays_of(self.promise.apply(self.found.value, noise))
        if all(map(np.array_equal, numbers, arrays_of(self.found.value))):
            self._refuse_unhidden(_UNCHANGED_WORDS)
        arrays.make_writer(self.target, replace(self.found.table, arrays=numbers))(stream)
        return {}


@dataclass(kw_only=True, eq=False)
class ReleasedFilm(_ReleasedOutput):
    """A video under a mechanism: decoded, released and encoded frame by frame, however long."""

    found: FilmRecording

    def _check_output(self) -> None:
        """The mechanism works frame by frame, and the target's format can hold them."""
        mechanism, path, target = self.promise, self.found.path, self.target
        if not isinstance(mechanism, FrameByFrame):
            raise ValueError(f"Expected a mechanism for videos, got {mechanism.name}.")
        if isinstance(mechanism, TwoPass):
            self.companion_suffixes = mechanism.ALONG
        self.saving_fields["kept_times"] = bool(self.found.contents.times)
        self._check_export(path)
        if target.suffix.lower() not in video.WRITABLE:
            raise ValueError(
                f"Expected a video to become a video, got {target.name}; choose one of "
                f"{', '.join(sorted(video.WRITABLE))}."
            )
        if self.options.saving.keep_sound:
            audio.check_audio(path, suffix=target.suffix)
        self.plan = mechanism.plan(self.shapes)
        if self.options.saving.keep_sound:
            self.plan.guarantee.with_sound()
        mechanism.check(np.empty((1, *self.shapes[0][1:]), np.uint8))
        self.film_outline.check_outline()

    def _check_export(self, source: Path) -> None:
        """What a mechanism writes for its owner must not stand where the public output goes."""
        export = getattr(self.promise, "export", None)
        others = [sidecar_path(self.target, suffix) for suffix in self.companion_suffixes]
        taken = (source, self.target, receipt_path(self.target), *others)
        if export is not None and Path(export).resolve() in [path.resolve() for path in taken]:
            raise ValueError(
                f"Expected a place of its own for the private export, got {export}, which is the "
                "input, the output or what goes with it; choose another name."
            )

    @cached_property
    def film_outline(self) -> write.FilmOutline:
        """What is written, in public words."""
        contents = self.found.contents
        frames, height, width, _ = contents.shape
        return write.FilmOutline(
            suffix=self.target.suffix,
            frames=frames,
            height=height,
            width=width,
            rate=contents.rate,
            times=contents.times,
            aspect=contents.aspect,
            exact=self.options.saving.exact,
        )

    def write(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Read, release and write as one stream, on three threads.

        A mechanism that has companions reads it once more before, to look at all of it.
        """
        with devices.one_thread(), make_progress_bars(is_shown=self.options.is_watched) as progress:
            if others:
                return self._release_two_pass(stream, others, noise, progress)
            assert isinstance(self.promise, FrameByFrame)  # or it had not been made
            self._write_frames(self.promise, UnchangedReading(self.found), stream, noise, progress)
            return {}

    def _release_two_pass(
        self,
        stream: BinaryIO,
        others: Mapping[str, BinaryIO],
        noise: Noise,
        progress: Progress,
    ) -> Mapping[str, int]:
        assert isinstance(self.promise, TwoPass)  # or there were no others
        contents, first = self.found.contents, UnchangedReading(self.found, is_marked=True)
        again = UnchangedReading(self.found, is_marked=True)
        with contextlib.closing(self._read_ahead(first)) as frames:
            looked_at = progress.track(frames, total=contents.frames, description="looking")
            studied = self.promise.first_pass(
                iter(looked_at), contents.shape, rate_hz=float(contents.rate), noise=noise
            )
            with contextlib.closing(studied):
                first.check_complete(rest=frames)
                self._write_frames(studied, again, stream, noise, progress)
                again.check_same_frames(first)
                if studied.receipt_counts.get(REPLACED_KEY) == 0:
                    self._refuse_unhidden(_NO_AVATAR_WORDS)
                for suffix, other in others.items():
                    studied.write_sidecar(suffix, other)
                return studied.receipt_counts

    def _read_ahead(self, same: UnchangedReading) -> Generator[np.ndarray, None, None]:
        return streams.read_ahead(
            same.iter_frames(), max_waiting=streams.count_waiting(self.film_outline.frame_bytes)
        )

    def _write_frames(
        self,
        promise: FrameByFrame,
        same: UnchangedReading,
        stream: BinaryIO,
        noise: Noise,
        progress: Progress,
    ) -> None:
        saving, shape, left = self.options.saving, self.found.contents.shape, UnchangedDetector()
        sound = self.found.path if saving.keep_sound else None
        with (
            contextlib.closing(self._read_ahead(same)) as frames,
            write.open_encoder(
                stream, self.film_outline, audio_from=sound, threads=saving.threads
            ) as encoder,
        ):
            task = progress.add_task("releasing", total=shape[0])
            for frame in promise.stream(left.hold_frames(frames), shape, noise):
                left.compare_frame(frame)
                encoder.encode_array(frame)
                progress.advance(task)
            same.check_complete(rest=frames)
            if left.is_all:
                self._refuse_unhidden(_UNCHANGED_WORDS)


def make_output(
    found: Recording, mechanism: Mechanism, target: Path, options: FileSettings
) -> ReleasedFilm | ReleasedTable:
    """What a mechanism makes of a recording; refuses what cannot be released or written."""
    given: dict[str, Any] = {"promise": mechanism, "target": target, "options": options}
    if isinstance(found, FilmRecording):
        return ReleasedFilm(found=found, **given)
    return ReleasedTable(found=found, **given)
