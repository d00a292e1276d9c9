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
from masquerade._formatting import about_bytes, about_seconds, counted
from masquerade.guarantee import Unit, UnitName
from masquerade.io.video.probe import Counting
from masquerade.ledger.content import Content
from masquerade.mechanism import Mechanism, Shapes, Streams
from masquerade.mechanisms import expected_view
from masquerade.noise import Noise
from masquerade.publish.bills import bill_of, refuse_rehearsal
from masquerade.publish.folder import Job, Outcome, Work, about_names, check_names, failed, plan
from masquerade.publish.recording import Options, ReleasedFilm, ReleasedTable, released
from masquerade.publish.sources import Film, Recording, find, glance
from masquerade.publish.spine import Place, check_room, final_name, recognised
from masquerade.result import Answer
from masquerade.wording import PERSON, explain

_COUNT, _READ, _WRITE = 2.7, 7.0, 16.0  # ns a pixel: decoding alone, decoding to RGB, encoding
_KNOW = 20.0  # what a ledger knows a film by, in each of two passes
_NUMBER = 100.0  # ns a number of an array file
_BUSY = 1.7  # processors that one release keeps busy
_EXACT, _NOISE = 0.6, 3.5  # bytes a pixel of an exact copy, and of one of noise


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """What one mechanism takes, a pixel of a frame.

    Args:
        time: ns of one processor.
        room: bytes of what is written, visually lossless.
        frame: ms of one processor for each frame besides, whatever its size.
    """

    time: float
    room: float
    frame: float = 0.0


_OTHERS = _Pace(time=100.0, room=0.05)  # a mechanism that nobody has measured
_PACES = {
    "alf": _Pace(time=51.0, room=0.010),
    "appearance_free": _Pace(time=130.0, room=0.11),
    "avatar": _Pace(time=130.0, room=0.015, frame=200.0),
    "blur": _Pace(time=7.0, room=0.010),
    "cosine_gaussian": _Pace(time=20.0, room=0.023),
    "cosine_gaussian local": _Pace(time=33.0, room=0.022),
    "face_blur": _Pace(time=236.0, room=0.031),
    "gaussian_noise": _Pace(time=120.0, room=1.0),
    "learned_filter": _Pace(time=29.0, room=0.020),  # soften; others take what they take
    "low_resolution": _Pace(time=7.0, room=0.005),
    "mosaic": _Pace(time=2.3, room=0.011),
    "pooled_gaussian": _Pace(time=19.0, room=0.023),
    "ppedcrf": _Pace(time=31.0, room=0.18),
    "ppedcrf people": _Pace(time=410.0, room=0.17),
    "public_mask_gaussian": _Pace(time=130.0, room=1.0),
    "random_mask": _Pace(time=5.7, room=0.092),
    "selective_privacy": _Pace(time=340.0, room=0.038),
    "selective_privacy people": _Pace(time=690.0, room=0.11),  # where nearly a third is hidden
    "spact": _Pace(time=51.0, room=0.010),
    "video_dprp": _Pace(time=490.0, room=0.067),
}
_LOCAL = ("value", "pixels")  # units for which the local step does something
_PNG = {".png": 1.5, ".jpg": 0.6, ".jpeg": 0.6}  # bytes a pixel of a picture


def estimate_seconds(mechanism: Mechanism, shapes: Shapes, *, is_charged: bool = False) -> float:
    """About how long a release takes: reading twice, the mechanism, and writing.

    Args:
        mechanism: what is done.
        shapes: of what is released.
        is_charged: whether a ledger is, which must know the recording.
    """
    numbers = sum(map(math.prod, shapes))
    if not _is_film(mechanism, shapes):
        return numbers * _NUMBER * 1e-9
    first = _READ if is_charged else _COUNT
    pace = _pace(mechanism)
    each = first + _READ + pace.time + _WRITE + 2 * _KNOW * is_charged
    total = numbers / 3 * each * 1e-9 + shapes[0][0] * pace.frame * 1e-3
    return total / min(_BUSY, os.cpu_count() or 1)


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
    room = _pace(mechanism).room
    if is_exact:
        room = _NOISE if mechanism.name == "gaussian_noise" else _EXACT
    return round(numbers / 3 * _PNG.get(suffix.lower(), room))


def _is_film(mechanism: Mechanism, shapes: Shapes) -> bool:
    return isinstance(mechanism, Streams) and len(shapes) == 1 and len(shapes[0]) == 4


def _pace(mechanism: Mechanism) -> _Pace:
    fields: dict[str, Any] = dict(mechanism.fields())
    is_local = fields.get("denoise") == "local" and fields.get("unit") in _LOCAL
    does_segment = fields.get("region") == "people" or fields.get("people") == "segmenter"
    kind = f"{mechanism.name}{' local' * is_local}{' people' * does_segment}"
    return _PACES.get(kind, _OTHERS)


_AFFORDED = "The ledger can afford it."
_COUNTED = {
    Counting.HEADER: "{frames} by its header; a release decodes and counts them.",
    Counting.ABOUT: "About {frames}, by its header's times; a release decodes and counts them.",
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
    options: Options
    person_height: int | None = None

    def of_file(self, source: Path, target: Path) -> Answer:
        """What a release of one file would promise."""
        made, stands = self._probed(source, target)
        lines = ["Nothing was written."]
        if stands:
            lines.append("Its output stands there already; nothing would be spent.")
        elif self.ledger is not None:
            has_sound = self.options.saving.keep_sound
            self.ledger.quote(made.found.content, self.mechanism, with_sound=has_sound)
            lines.append(_AFFORDED)
        answer = self._promise(made)
        return replace(answer, lines=lines + answer.lines)

    def of_folder(self, source: Path, target: Path, work: Work) -> Answer:
        """What a release of a folder would promise, and which files it would refuse."""
        check_names(source, target, work, self.options)
        planned = plan(source, target, work)
        previews, refused, is_afforded = self._previews(planned.jobs)
        lost = [*planned.lost, *refused]
        seconds, size = (
            sum(answer.data[what] for answer in previews.values())
            for what in ("expected_seconds", "expected_bytes")
        )
        lines = [f"{counted(len(planned.jobs), 'file')}; nothing was written."]
        lines += planned.left_out
        lines += [_AFFORDED] * is_afforded
        lines += expected_view.tally(answer.data["expect"] for answer in previews.values())
        lines += [about_names(None)] * work.keep_names
        lines += [f"WOULD FAIL {outcome.source}: {outcome.error}" for outcome in lost]
        if previews:
            first = next(iter(previews))
            lines += [
                f"Expected in all: {about_seconds(seconds)} one after the other, and "
                f"{about_bytes(size)}.",
                f"For the first, {first.name}:",
                *previews[first].lines,
            ]
        data = [{"source": str(path)} | answer.data for path, answer in previews.items()]
        return Answer(
            data={
                "files": data + [outcome.data for outcome in lost],
                "failed": len(lost),
                "expected_seconds": seconds,
                "expected_bytes": size,
            },
            lines=lines,
            exit_code=max((outcome.exit_code for outcome in lost), default=0),
        )

    def _previews(self, jobs: list[Job]) -> tuple[dict[Path, Answer], list[Outcome], bool]:
        """Of each file that would do, why each other would not, and whether a ledger agrees."""
        previews: dict[Path, Answer] = {}
        asked: dict[Path, Content] = {}
        refused = []
        for job in jobs:
            try:
                made, stands = self._probed(job.source, job.target, is_in_folder=True)
                is_asked = self.ledger is not None and not stands
                charged = {job.source: made.found.content} if is_asked else {}
                previews[job.source] = self._promise(made)
                asked |= charged
            except (ValueError, OSError, RuntimeError) as error:
                refused.append(failed(job.source, error))
        refusals = self._refusals(asked)
        for source, refusal in refusals:
            previews.pop(source)
            refused.append(failed(source, refusal))
        return previews, refused, bool(asked) and not refusals

    def _refusals(self, asked: dict[Path, Content]) -> list[tuple[Path, Exception]]:
        """The files that the ledger would refuse, one after another in this order, and why."""
        if self.ledger is None or not asked:
            return []
        has_sound = self.options.saving.keep_sound
        said = self.ledger.quote_all(asked.values(), self.mechanism, with_sound=has_sound)
        pairs = zip(asked, said, strict=True)
        return [(source, error) for source, error in pairs if error is not None]

    def _probed(
        self, source: Path, target: Path, *, is_in_folder: bool = False
    ) -> tuple[ReleasedFilm | ReleasedTable, bool]:
        """What is there, and whether its output stands already; refuses what a run would."""
        refuse_rehearsal(self.ledger, self.noise)
        target = final_name(target, self.noise)
        if target.parent.is_dir() or not is_in_folder:  # else a folder's run makes it
            check_room(target, source)
        place = Place(target=target, if_standing=self.options.if_standing)
        heading, limits = self.options.heading, self.options.limits
        if self.ledger is None and not place.stands:
            found = glance(source, heading=heading, limits=limits)
        else:
            is_charged = self.ledger is not None
            found = find(source, heading=heading, limits=limits, is_charged=is_charged)
        made = released(found, self.mechanism, target, self.options)
        if place.stands:
            bill = bill_of(
                self.ledger,
                self.noise,
                lambda: found.content,
                self.mechanism,
                with_sound=self.options.saving.keep_sound,
            )
            recognised(made, place, bill)
        return made, place.stands

    def _promise(self, made: ReleasedFilm | ReleasedTable) -> Answer:
        """Guarantee, what to expect, time and size, and how much of a person one unit covers."""
        mechanism, options, is_rehearsal = self.mechanism, self.options, self.noise.is_rehearsal
        found, plan, shapes = made.found, made.plan, made.shapes
        guarantee = plan.guarantee.as_released(
            with_sound=options.saving.keep_sound,
            with_times=isinstance(found, Film) and bool(found.contents.times),
            is_rehearsal=is_rehearsal,
        )
        error = plan.expected_error
        seconds = estimate_seconds(mechanism, shapes, is_charged=self.ledger is not None)
        size = estimate_size(
            mechanism, shapes, suffix=made.target.suffix, is_exact=options.saving.exact
        )
        sight = expected_view.expect(plan, shapes, is_video=isinstance(found, Film))
        first, *others = explain(guarantee)
        lines = [first, *expected_view.said(sight)]
        if sight in expected_view.USELESS and not options.accept_grey and not is_rehearsal:
            lines.append(
                "A release would be refused: there is nothing in it but noise. Give --yes for it."
            )
        lines += others
        if error is not None:
            lines.append(
                f"Expect a number to be off by about {error:.3g}, and by less than {2 * error:.3g} "
                "in 95 of 100 cases."
            )
        lines += _counted(found)
        lines.append(
            f"Expected time: {about_seconds(seconds)}, and size: {about_bytes(size)}. Both are "
            "estimates."
        )
        data = {
            "shapes": shapes,
            "frames_counted": found.contents.counting if isinstance(found, Film) else None,
            "guarantee": _json.encode(guarantee),
            "expect": sight,
            "expected_error": error,
            "expected_seconds": seconds,
            "expected_bytes": size,
        }
        if self.person_height is not None:
            data["person"], said = _person(self.person_height, shapes, guarantee.unit)
            lines += said
        return Answer(data=data, lines=lines)


def _counted(found: Recording) -> list[str]:
    """How the frames of a film were counted, unless by decoding."""
    if not isinstance(found, Film) or found.contents.counting is Counting.DECODED:
        return []
    frames = counted(found.contents.frames, "frame")
    return [_COUNTED[found.contents.counting].format(frames=frames)]


def _person(height: int, shapes: Shapes, unit: Unit) -> tuple[dict[str, int], list[str]]:
    """How many sites someone covers, beside what the unit covers."""
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError("Expected a video for --person-height, got numbers of another shape.")
    frames = shapes[0][0]
    sites = math.ceil(PERSON * height**2)
    lines = [
        f"A standing person {height} pixels tall covers about {sites} sites of a frame "
        f"({PERSON} of the height squared), {sites * frames} if seen in all {frames} frames."
    ]
    if unit.name in (UnitName.PIXELS, UnitName.TUBE):
        covered = (unit.sites or 1) / (sites * (frames if unit.name is UnitName.PIXELS else 1))
        lines.append(f"{unit} is {min(covered, 1):.2g} of that person.")
    return {"height": height, "sites_per_frame": sites, "sites": sites * frames}, lines
