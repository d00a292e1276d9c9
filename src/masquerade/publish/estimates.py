"""What a release would promise and cost, from public knowledge alone; nothing is written.

About how long a release takes and how large its output is, from public numbers alone.

All that is known stands in one table, made on 1280x720 of filmed people on two cores. Films are
measured; pictures, exact copies, arrays and the size of noise are guessed.
`benchmarks/full_size.py` prints the same figures for the machine that it runs on.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade import _json
from masquerade import ledger as ledgers
from masquerade._formatting import format_bytes, format_count, format_seconds
from masquerade.guarantee import Unit, UnitName
from masquerade.io.video.probe import CountSource
from masquerade.ledger.content import Content
from masquerade.mechanism import FrameByFrame, Mechanism, Shapes
from masquerade.mechanisms import expected_view
from masquerade.noise import Noise
from masquerade.publish.bills import make_recording_bill, refuse_rehearsal
from masquerade.publish.folder import (
    FileJob,
    FileOutcome,
    FolderSettings,
    check_names,
    describe_names,
    make_failure,
    plan_folder,
)
from masquerade.publish.recording import FileSettings, ReleasedFilm, ReleasedTable, make_output
from masquerade.publish.sources import FilmRecording, Recording, probe_recording, read_header
from masquerade.publish.spine import OutputPlace, check_output_place, final_name, recognise_output
from masquerade.result import CommandResult
from masquerade.wording import PERSON_AREA_SHARE, explain

_COUNT, _READ, _WRITE = 2.7, 7.0, 16.0  # ns a pixel: decoding alone, decoding to RGB, encoding
_HASH_NS = 20.0  # what a ledger knows a film by, in each of two passes
_NUMBER_NS = 100.0  # ns a number of an array file
_BUSY_PROCESSORS = 1.7  # processors that one release keeps busy
_EXACT, _NOISE = 0.6, 3.5  # bytes a pixel of an exact copy, and of one of noise


@dataclass(frozen=True, kw_only=True)
class _ReleasePace:
    """What one mechanism takes, a pixel of a frame.

    Args:
        time: ns of one processor.
        bytes_per_pixel: bytes of what is written, visually lossless.
        frame: ms of one processor for each frame besides, whatever its size.
    """

    time: float
    bytes_per_pixel: float
    frame: float = 0.0


_DEFAULT_PACE = _ReleasePace(
    time=100.0, bytes_per_pixel=0.05
)  # a mechanism that nobody has measured
_MECHANISM_PACES = {
    "alf": _ReleasePace(time=51.0, bytes_per_pixel=0.010),
    "appearance_free": _ReleasePace(time=130.0, bytes_per_pixel=0.11),
    "avatar": _ReleasePace(time=130.0, bytes_per_pixel=0.015, frame=200.0),
    "blur": _ReleasePace(time=7.0, bytes_per_pixel=0.010),
    "cosine_gaussian": _ReleasePace(time=20.0, bytes_per_pixel=0.023),
    "cosine_gaussian local": _ReleasePace(time=33.0, bytes_per_pixel=0.022),
    "face_blur": _ReleasePace(time=236.0, bytes_per_pixel=0.031),
    "gaussian_noise": _ReleasePace(time=120.0, bytes_per_pixel=1.0),
    "learned_filter": _ReleasePace(
        time=29.0, bytes_per_pixel=0.020
    ),  # soften; others take what they take
    "low_resolution": _ReleasePace(time=7.0, bytes_per_pixel=0.005),
    "mosaic": _ReleasePace(time=2.3, bytes_per_pixel=0.011),
    "pooled_gaussian": _ReleasePace(time=19.0, bytes_per_pixel=0.023),
    "ppedcrf": _ReleasePace(time=31.0, bytes_per_pixel=0.18),
    "ppedcrf people": _ReleasePace(time=410.0, bytes_per_pixel=0.17),
    "public_mask_gaussian": _ReleasePace(time=130.0, bytes_per_pixel=1.0),
    "random_mask": _ReleasePace(time=5.7, bytes_per_pixel=0.092),
    "selective_privacy": _ReleasePace(time=340.0, bytes_per_pixel=0.038),
    "selective_privacy people": _ReleasePace(
        time=690.0, bytes_per_pixel=0.11
    ),  # where nearly a third is hidden
    "spact": _ReleasePace(time=51.0, bytes_per_pixel=0.010),
    "video_dprp": _ReleasePace(time=490.0, bytes_per_pixel=0.067),
}
_LOCAL_UNITS = ("value", "pixels")  # units for which the local step does something
_PNG_BYTES = {".png": 1.5, ".jpg": 0.6, ".jpeg": 0.6}  # bytes a pixel of a picture


def estimate_seconds(mechanism: Mechanism, shapes: Shapes, *, is_charged: bool = False) -> float:
    """About how long a release takes: reading twice, the mechanism, and writing.

    Args:
        mechanism: what is done.
        shapes: of what is released.
        is_charged: whether a ledger is, which must know the recording.
    """
    numbers = sum(map(math.prod, shapes))
    if not _is_film(mechanism, shapes):
        return numbers * _NUMBER_NS * 1e-9
    first = _READ if is_charged else _COUNT
    pace = _find_pace(mechanism)
    each = first + _READ + pace.time + _WRITE + 2 * _HASH_NS * is_charged
    total = numbers / 3 * each * 1e-9 + shapes[0][0] * pace.frame * 1e-3
    return total / min(_BUSY_PROCESSORS, os.cpu_count() or 1)


def estimate_size(
    mechanism: Mechanism, shapes: Shapes, *, suffix: str, is_exact: bool = False
) -> int:
    """About how many bytes the output has.

    Args:
        mechanism: what is done.
        shapes: of what is released.
        suffix: of the output.
        is_exact: whether every value is kept.
    """
    numbers = sum(map(math.prod, shapes))
    if not _is_film(mechanism, shapes):
        return 8 * numbers
    room = _find_pace(mechanism).bytes_per_pixel
    if is_exact:
        room = _NOISE if mechanism.name == "gaussian_noise" else _EXACT
    return round(numbers / 3 * _PNG_BYTES.get(suffix.lower(), room))


def _is_film(mechanism: Mechanism, shapes: Shapes) -> bool:
    return isinstance(mechanism, FrameByFrame) and len(shapes) == 1 and len(shapes[0]) == 4


def _find_pace(mechanism: Mechanism) -> _ReleasePace:
    fields: dict[str, Any] = dict(mechanism.encode_fields())
    is_local = fields.get("denoise") == "local" and fields.get("unit") in _LOCAL_UNITS
    does_segment = fields.get("region") == "people" or fields.get("people") == "segmenter"
    kind = f"{mechanism.name}{' local' * is_local}{' people' * does_segment}"
    return _MECHANISM_PACES.get(kind, _DEFAULT_PACE)


_AFFORDED_NOTE = "The ledger can afford it."
_FRAME_COUNT_NOTES = {
    CountSource.HEADER: "{frames} by its header; a release decodes and counts them.",
    CountSource.ABOUT: "About {frames}, by its header's times; a release decodes and counts them.",
}


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A release that is not made: it refuses what a real one would, and says what it would say.

    Of a film the header and the first frame are read, which takes a moment however long it is.
    What only decoding finds, damage further on and a header that lies, is left to the release;
    all of it is decoded where a ledger is asked, which knows recordings by their frames, and where
    an output stands there.

    Args:
        mechanism: what would be done.
        noise: a rehearsal's or not.
        ledger: that would be charged.
        options: as for the release.
        person_height: pixels; how many sites a person of that height covers.
    """

    mechanism: Mechanism
    noise: Noise
    ledger: ledgers.Ledger | None
    options: FileSettings
    person_height: int | None = None

    def preview_file(self, source: Path, target: Path) -> CommandResult:
        """What a release of one file would promise."""
        made, stands = self._probe_target(source, target)
        lines = ["Nothing was written."]
        if stands:
            lines.append("Its output stands there already; nothing would be spent.")
        elif self.ledger is not None:
            has_sound = self.options.saving.keep_sound
            self.ledger.quote_release(made.found.content, self.mechanism, with_sound=has_sound)
            lines.append(_AFFORDED_NOTE)
        answer = self._describe_promise(made)
        return replace(answer, lines=lines + answer.lines)

    def preview_folder(self, source: Path, target: Path, work: FolderSettings) -> CommandResult:
        """What a release of a folder would promise, and which files it would refuse."""
        check_names(source, target, work, self.options)
        planned = plan_folder(source, target, work)
        previews, refused, is_afforded = self._preview_jobs(planned.jobs)
        lost = [*planned.lost, *refused]
        seconds, size = (
            sum(answer.data[what] for answer in previews.values())
            for what in ("expected_seconds", "expected_bytes")
        )
        lines = [f"{format_count(len(planned.jobs), 'file')}; nothing was written."]
        lines += planned.omission_notes
        lines += [_AFFORDED_NOTE] * is_afforded
        lines += expected_view.summarise_views(
            answer.data["expect"] for answer in previews.values()
        )
        lines += [describe_names(None)] * work.keep_names
        lines += [f"WOULD FAIL {outcome.source}: {outcome.error}" for outcome in lost]
        if previews:
            first = next(iter(previews))
            lines += [
                f"Expected in all: {format_seconds(seconds)} one after the other, and "
                f"{format_bytes(size)}.",
                f"For the first, {first.name}:",
                *previews[first].lines,
            ]
        data = [{"source": str(path)} | answer.data for path, answer in previews.items()]
        return CommandResult(
            data={
                "files": data + [outcome.json_fields for outcome in lost],
                "failed": len(lost),
                "expected_seconds": seconds,
                "expected_bytes": size,
            },
            lines=lines,
            exit_code=max((outcome.exit_code for outcome in lost), default=0),
        )

    def _preview_jobs(
        self, jobs: list[FileJob]
    ) -> tuple[dict[Path, CommandResult], list[FileOutcome], bool]:
        """Of each file that would do, why each other would not, and whether a ledger agrees."""
        previews: dict[Path, CommandResult] = {}
        contents_by_file: dict[Path, Content] = {}
        refused = []
        for job in jobs:
            try:
                made, stands = self._probe_target(job.source, job.target, is_in_folder=True)
                is_asked = self.ledger is not None and not stands
                charged = {job.source: made.found.content} if is_asked else {}
                previews[job.source] = self._describe_promise(made)
                contents_by_file |= charged
            except (ValueError, OSError, RuntimeError) as error:
                refused.append(make_failure(job.source, error))
        refusals = self._list_refusals(contents_by_file)
        for source, refusal in refusals:
            previews.pop(source)
            refused.append(make_failure(source, refusal))
        return previews, refused, bool(contents_by_file) and not refusals

    def _list_refusals(self, contents_by_file: dict[Path, Content]) -> list[tuple[Path, Exception]]:
        """The files that the ledger would refuse, one after another in this order, and why."""
        if self.ledger is None or not contents_by_file:
            return []
        has_sound = self.options.saving.keep_sound
        said = self.ledger.quote_releases(
            contents_by_file.values(), self.mechanism, with_sound=has_sound
        )
        pairs = zip(contents_by_file, said, strict=True)
        return [(source, error) for source, error in pairs if error is not None]

    def _probe_target(
        self, source: Path, target: Path, *, is_in_folder: bool = False
    ) -> tuple[ReleasedFilm | ReleasedTable, bool]:
        """What is there, and whether its output stands already; refuses what a run would."""
        refuse_rehearsal(self.ledger, self.noise)
        target = final_name(target, self.noise)
        if target.parent.is_dir() or not is_in_folder:  # else a folder's run makes it
            check_output_place(target, source)
        place = OutputPlace(target=target, if_standing=self.options.if_standing)
        heading, limits = self.options.heading, self.options.limits
        if self.ledger is None and not place.keeps_existing:
            found = read_header(source, heading=heading, limits=limits)
        else:
            is_charged = self.ledger is not None
            found = probe_recording(source, heading=heading, limits=limits, is_charged=is_charged)
        made = make_output(found, self.mechanism, target, self.options)
        if place.keeps_existing:
            bill = make_recording_bill(
                self.ledger,
                self.noise,
                lambda: found.content,
                self.mechanism,
                with_sound=self.options.saving.keep_sound,
            )
            recognise_output(made, place, bill)
        return made, place.keeps_existing

    def _describe_promise(self, made: ReleasedFilm | ReleasedTable) -> CommandResult:
        """Guarantee, what to expect, time and size, and how much of a person one unit covers."""
        mechanism, options, is_rehearsal = self.mechanism, self.options, self.noise.is_rehearsal
        found, plan, shapes = made.found, made.plan, made.shapes
        guarantee = plan.guarantee.as_released(
            with_sound=options.saving.keep_sound,
            with_times=isinstance(found, FilmRecording) and bool(found.contents.times),
            is_rehearsal=is_rehearsal,
        )
        error = plan.expected_error
        seconds = estimate_seconds(mechanism, shapes, is_charged=self.ledger is not None)
        size = estimate_size(
            mechanism, shapes, suffix=made.target.suffix, is_exact=options.saving.exact
        )
        sight = expected_view.predict_view(plan, shapes, is_video=isinstance(found, FilmRecording))
        first, *others = explain(guarantee)
        lines = [first, *expected_view.describe_view(sight)]
        if sight in expected_view.USELESS_VIEWS and not options.accept_grey and not is_rehearsal:
            lines.append(
                "A release would be refused: there is nothing in it but noise. Give --yes for it."
            )
        lines += others
        if error is not None:
            lines.append(
                f"Expect a number to be off by about {error:.3g}, and by less than {2 * error:.3g} "
                "in 95 of 100 cases."
            )
        lines += _explain_frame_count(found)
        lines.append(
            f"Expected time: {format_seconds(seconds)}, and size: {format_bytes(size)}. Both are "
            "estimates."
        )
        data = {
            "shapes": shapes,
            "frames_counted": found.contents.counting if isinstance(found, FilmRecording) else None,
            "guarantee": _json.encode_noun(guarantee),
            "expect": sight,
            "expected_error": error,
            "expected_seconds": seconds,
            "expected_bytes": size,
        }
        if self.person_height is not None:
            data["person"], said = _compare_with_person(self.person_height, shapes, guarantee.unit)
            lines += said
        return CommandResult(data=data, lines=lines)


def _explain_frame_count(found: Recording) -> list[str]:
    """How the frames of a film were counted, unless by decoding."""
    if not isinstance(found, FilmRecording) or found.contents.counting is CountSource.DECODED:
        return []
    frames = format_count(found.contents.frames, "frame")
    return [_FRAME_COUNT_NOTES[found.contents.counting].format(frames=frames)]


def _compare_with_person(
    height: int, shapes: Shapes, unit: Unit
) -> tuple[dict[str, int], list[str]]:
    """How many sites someone covers, beside what the unit covers."""
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError("Expected a video for --person-height, got numbers of another shape.")
    frames = shapes[0][0]
    sites = math.ceil(PERSON_AREA_SHARE * height**2)
    lines = [
        f"A standing person {height} pixels tall covers about {sites} sites of a frame "
        f"({PERSON_AREA_SHARE} of the height squared), {sites * frames} if seen in all {frames} "
        "frames."
    ]
    if unit.name in (UnitName.PIXELS, UnitName.TUBE):
        covered = (unit.sites or 1) / (sites * (frames if unit.name is UnitName.PIXELS else 1))
        lines.append(f"{unit} is {min(covered, 1):.2g} of that person.")
    return {"height": height, "sites_per_frame": sites, "sites": sites * frames}, lines
