"""Look into recordings: what a video file holds, which data sets there are, Stage.

Write the recordings of Stage as files, to be released, masked or attacked like anybody's.

Two files to try things on: a film of somebody who never lived, and a heart that never beat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade import catalog
from masquerade.cli.flags import Positional
from masquerade.collection import Collection, CountLine, Medium, Recording, format_citation
from masquerade.datasets import mask_files
from masquerade.datasets.manifest_table import ManifestRow, as_csv
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput, exit_code, format_error
from masquerade.io import atomic
from masquerade.io.video import MAX_PIXELS, is_video, write
from masquerade.progress import make_progress_bars
from masquerade.publish import collections
from masquerade.publish.collections import probe_file
from masquerade.publish.folder import find_common_folder
from masquerade.publish.masks import MARGIN_PX, THRESHOLD
from masquerade.recordings import Photo, Video
from masquerade.result import CommandResult
from masquerade.stage import bodies


@dataclass(frozen=True, kw_only=True)
class WriteData:
    """Write recordings of Stage as files: .mp4, .png or .npy, under their names in the data set.

    Beside the folder stands a table of the same name, .csv, of who does what and where, which the
    data set ``manifest`` reads.

    Args:
        out: folder for them; it is made. A file that stands there is left alone.
        exact: keep every value of a video (.mkv); by default it is visually lossless.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "datasets")

    out: Path = Path("out/stage")
    exact: bool = False

    def run(self, entry: Collection[Any]) -> CommandResult:
        """Draw and write one after the other."""
        if not isinstance(entry, Stage):
            raise ValueError("Expected stage: other data sets are files already.")
        with make_progress_bars() as progress:
            task = progress.add_task("writing", total=len(entry))
            written = []
            for path in write_stage(entry, self.out, exact=self.exact):
                written.append(path)
                progress.advance(task)
        table = write_table(entry, self.out, written)
        return CommandResult(
            data={"files": len(entry), "folder": str(self.out), "table": str(table)},
            lines=[
                f"{len(entry)} {entry.kind} of {entry.part_name} in {self.out}.",
                f"Who does what and where: {table}.",
            ],
        )


def write_stage(stage: Stage, out: Path, *, exact: bool = False) -> Iterator[Path]:
    """Write the recordings of a world as files, and give each file's path."""
    for index, labels in enumerate(stage.labels):
        bare = out / labels.name
        suffix = {"videos": ".mkv" if exact else ".mp4", "photos": ".png"}.get(stage.kind, ".npy")
        path = bare.with_name(bare.name + suffix)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_recording(stage[index], path, exact=exact)
        yield path


def write_table(stage: Stage, out: Path, written: Sequence[Path]) -> Path:
    """Write what is known of the files of a world, one row each, and give the table's path."""
    own = [name for name in stage.parts if name != "all"]
    splits = {known.name: name for name in own for known in stage.select_part(name).labels}
    rows = [
        ManifestRow(
            line=place,
            path=path.relative_to(out.parent).as_posix(),
            activity=known.activity,
            subject=known.subject,
            split=splits.get(known.name),
            place=known.place,
            view=known.view,
        )
        for place, (known, path) in enumerate(zip(stage.labels, written, strict=True), 2)
    ]
    table = out.with_name(f"{out.name}.csv")  # not inside: what is inside gets released
    atomic.write_whole(table, as_csv(rows).encode())
    return table


def write_recording(recording: Recording, path: Path, *, exact: bool = False) -> None:
    """Write one recording under a name that is free: .mp4 or .mkv, .png, or .npy."""
    with atomic.open_unfinished(path, replaces=False) as part:
        if isinstance(recording, Video):
            rate = Fraction(recording.rate_hz).limit_denominator(1_001)
            write.write_video(
                part.stream, recording.frames, suffix=path.suffix, rate=rate, exact=exact
            )
        elif isinstance(recording, Photo):
            write.write_video(
                part.stream, recording.image[None], suffix=path.suffix, rate=Fraction(1)
            )
        else:
            np.save(part.stream, recording.values)
        part.seal_file()
        part.move_into_place()


FILM, HEART = "ward.mp4", "heart.csv"
_SAMPLE_STAGE = Stage(seed=11, height=240, width=320, subjects=12, videos=12, frames=64)
_NUM_MINUTES = 240
_REST_BPM, _MAX_BPM = 62.0, 168.0  # beats a minute


@dataclass(frozen=True, kw_only=True)
class WriteSample:
    """Write ward.mp4 and heart.csv, both generated, for the commands that the docs show.

    Example:
        masquerade data sample

    Args:
        out: folder for them; it is made. A file that stands there is never replaced.
    """

    out: Path = Path(".")  # noqa: PTH201 (as help shows it)

    def run(self) -> CommandResult:
        """Draw both."""
        film, heart = self.out / FILM, self.out / HEART
        for path in (film, heart):
            if path.exists():
                raise BadInput(f"Expected no {path}, got one: move it away, or name another --out.")
        self.out.mkdir(parents=True, exist_ok=True)
        write_recording(_SAMPLE_STAGE[0], film)
        text = "bpm\n" + "".join(f"{beats:.0f}\n" for beats in make_walk_beats())
        atomic.write_whole(heart, text.encode())
        return CommandResult(
            data={"film": str(film), "heart": str(heart)},
            lines=[
                f"{film}: somebody of Stage; nobody in it ever lived.",
                f"{heart}: a heart rate each minute over {_NUM_MINUTES // 60} hours, made up.",
            ],
        )


def make_walk_beats() -> np.ndarray:
    """(minutes,) a heart at rest, on a walk and at rest again; the same each time."""
    minute = np.arange(_NUM_MINUTES)
    effort = np.clip(np.minimum(minute - 80, 170 - minute) / 15, 0, 1)
    slow = 4 * np.sin(minute / 11) + np.random.default_rng(5).normal(scale=2.5, size=_NUM_MINUTES)
    return np.asarray(np.clip(_REST_BPM + 48 * effort + slow, 40, _MAX_BPM))


_MAX_MISSING_NAMES = 8
_PROBE_FIELDS = (
    *("frames", "height", "width", "rate_hz", "rate", "seconds", "codec", "container"),
    *("pixel_format", "bits", "colour_range", "rotation", "aspect", "is_variable_rate"),
    *("has_alpha", "header_frames", "other_streams", "metadata", "chapters", "warnings"),
)


def make_stage(stage: Stage, *, device: str = "cpu", is_shown: bool = False) -> dict[str, Path]:
    """Put the videos, photos and signals of a world into the cache; give their folders."""
    found = {}
    with make_progress_bars(is_shown=is_shown) as progress:

        def make_bar(what: str) -> Callable[[int, int], None]:
            task = progress.add_task(what, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        bodies.load_body_model(progress=make_bar("baking bodies"))
        for kind in Medium:
            found[str(kind)] = replace(stage, kind=kind).make_recordings(
                progress=make_bar(f"making {kind}"), device=device
            )
    return found


@dataclass(frozen=True, kw_only=True)
class ListData:
    """List the data sets: what they hold, their licence, and what to cite."""

    def run(self) -> CommandResult:
        """Every data set, by name."""
        found = {}
        for name in catalog.list_entries("datasets"):
            example: Collection[Any] = catalog.make_example("datasets", name)
            about = example.ABOUT
            found[name] = {
                "title": about.title,
                "kind": ", ".join(example.kinds),
                "licence": about.licence,
                "home": about.home,
                "citation": format_citation(about.citation) if about.citation else "",
            }
        lines = []
        for name, said in found.items():
            lines.append(f"{name:18} {said['kind']:24} {said['title']}")
            lines += [f"{'':18}   {said[key]}" for key in ("licence", "citation") if said[key]]
        return CommandResult(data=found, lines=lines)


@dataclass(frozen=True, kw_only=True)
class CheckData:
    """Count the files of a data set against what its publisher says.

    Args:
        recordings: also read every recording, and name those that training could not use. What it
            says is private.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "datasets")

    recordings: bool = False

    def run(self, entry: Collection[Any]) -> CommandResult:
        """Read lists and file names; recordings only if asked to."""
        if self.recordings:
            return _read_all(entry)
        counts = entry.check()
        is_right = all(count.is_complete for count in counts)
        is_own = not entry.ABOUT.home
        lines = [line for count in counts for line in _format_count_lines(count, is_own=is_own)]
        bad = "NOT complete." if is_own else "NOT complete, or not the published version."
        lines.append("Complete." if is_right else bad)
        data = {
            "is_right": is_right,
            "counts": [vars(count) | {"is_right": count.is_complete} for count in counts],
        }
        return CommandResult(data=data, lines=lines, exit_code=0 if is_right else 4)


def _read_all(entry: Collection[Any]) -> CommandResult:
    """Which recordings cannot be read or learned from, and why."""
    faults = []
    with make_progress_bars() as progress:
        task = progress.add_task("reading", total=len(entry))
        for index, labels in enumerate(entry.labels):
            fault = _find_fault(entry, index)
            faults += [{"name": labels.name, "fault": fault}] if fault else []
            progress.advance(task)
    lines = ["PRIVATE: this is about what is in the recordings; do not publish it."]
    alike: dict[str, list[dict[str, str]]] = {}
    for each in faults:
        alike.setdefault(_blank_names(each), []).append(each)
    for fault, several in alike.items():
        names = [each["name"] for each in several]
        if len(names) == 1:
            lines.append(f"! {names[0]}: {several[0]['fault']}")
        elif len(names) == len(entry):
            lines.append(f"! all {len(names)} recordings: {fault}")
        else:
            lines += [f"! {len(names)} recordings: {fault}", *_list_names(names)]
    lines.append(_count_usable(len(entry), len(faults), "recordings", "used"))
    data = {"private": True, "recordings": len(entry), "faults": faults}
    return CommandResult(data=data, lines=lines, exit_code=4 if faults else 0)


def _blank_names(each: Mapping[str, str]) -> str:
    """A fault without the file and the row that it is in: what many may have alike."""
    file = each["name"].partition("#")[0]
    said = re.sub(rf"\S*{re.escape(file)}", "FILE", each["fault"])
    return re.sub(r"(FILE \(.*), line \d+\)", r"\1)", said)


def _count_usable(num_recordings: int, faults: int, what: str, done: str) -> str:
    return f"{num_recordings - faults} of {num_recordings} {what} can be {done}."


def _list_names(names: Sequence[str]) -> list[str]:
    more = len(names) - _MAX_MISSING_NAMES
    lines = [f"    {name}" for name in names[:_MAX_MISSING_NAMES]]
    return [*lines, f"    and {more} more (--json names all)"] if more > 0 else lines


def _find_fault(entry: Collection[Any], index: int) -> str:
    try:
        recording = entry[index]
    except (ValueError, TypeError, OSError) as error:
        return format_error(error)
    is_strange = isinstance(recording, Video) and recording.activity not in entry.activities
    if entry.activities and is_strange:
        return f"Expected an activity of the list, got {recording.activity!r}."
    return ""


def _format_count_lines(count: CountLine, *, is_own: bool) -> list[str]:
    """A line, and what is missing; nobody has published a number of somebody's own files."""
    told = "" if is_own else " (published number not known)"
    if count.published is not None:
        told = f" of {count.published} (source: {count.source})"
    mark = " " if count.is_complete else "!"
    lines = [f"{mark} {count.what}: {count.found}{told}"]
    return lines + _list_names([f"missing: {name}" for name in count.missing])


@dataclass(frozen=True, kw_only=True)
class ShowData:
    """Write a contact sheet of a data set, and a short film where it has videos.

    Args:
        out: folder for them; it is made.
        count: recordings shown, one an activity as far as there are.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "datasets")

    out: Path = Path("out/data")
    count: int = 12

    def run(self, entry: Collection[Any]) -> CommandResult:
        """Read a few recordings and draw them."""
        written = collections.write_sheets(entry, self.out, count=self.count)
        lines = [] if entry.ABOUT.is_made_up else ["PRIVATE: these are original recordings."]
        lines += [f"Wrote {path}" for path in written]
        return CommandResult(data={"files": [str(path) for path in written]}, lines=lines)


@dataclass(frozen=True, kw_only=True)
class MakeData:
    """Make the videos, photos and signals of Stage and keep them in the cache.

    Args:
        device: cpu or cuda, where pictures are drawn.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "datasets")

    device: str = "cpu"

    def run(self, entry: Collection[Any]) -> CommandResult:
        """Nothing is made twice."""
        if not isinstance(entry, Stage):
            raise ValueError("Expected stage: other data sets are not made, they are fetched.")
        folders = make_stage(entry, device=self.device, is_shown=True)
        counts = {kind: len(replace(entry, kind=Medium(kind), split="all")) for kind in folders}
        lines = [f"{counts[kind]} {kind} in {path}" for kind, path in folders.items()]
        data = {
            kind: {"count": counts[kind], "folder": str(path)} for kind, path in folders.items()
        }
        return CommandResult(data=data, lines=lines)


@dataclass(frozen=True, kw_only=True)
class ProbeFiles:
    """Print what is inside video or picture files.

    Args:
        files: .mp4 .mov .mkv .webm .avi .png .jpg .gif .webp .ts .mts .flv .mpg .3gp, or folders
            of them.
        max_pixels: of a frame; larger ones are refused by their header.
    """

    files: Positional[tuple[Path, ...]]
    max_pixels: int = MAX_PIXELS

    def run(self) -> CommandResult:
        """Decode all of it and describe it."""
        files: dict[Path, None] = {}  # each once, in order
        for path in self.files:
            inside = find_common_folder([path])[1] if path.is_dir() else [path]
            files |= dict.fromkeys(one for one in inside if is_video(one) or one == path)
        if not files:
            raise BadInput(
                f"Expected videos or pictures in {self.files[0]}, got files of other kinds alone; "
                "give another folder."
            )
        if len(files) == 1:
            return self._probe_one(*files)
        answers = {str(path): self._try_file(path) for path in files}
        faults = sum(each.exit_code > 0 for each in answers.values())
        answer, count = (
            CommandResult.merge_answers(answers),
            _count_usable(len(files), faults, "files", "read"),
        )
        return replace(answer, lines=[*answer.lines, count])

    def _try_file(self, path: Path) -> CommandResult:
        """One that cannot be read is said, and the others are looked into all the same."""
        try:
            return self._probe_one(path)
        except (BadInput, OSError) as error:
            said = format_error(error)
            return CommandResult(
                data={"private": True, "error": said},
                lines=[f"! {said}"],
                exit_code=exit_code(error),
            )

    def _probe_one(self, path: Path) -> CommandResult:
        inside = probe_file(path, max_pixels=self.max_pixels)
        frames, height, width, _ = inside.shape
        varying = " on average; the time between frames varies" * inside.is_variable_rate
        lines = [
            "PRIVATE: this describes the original.",
            f"{frames} frames of {width} x {height} at {inside.rate_hz:.6g} Hz{varying} "
            f"({inside.seconds:.2f} s)",
            f"{inside.codec} in {inside.container}: {inside.pixel_format}, {inside.bits} bits, "
            f"{inside.colour_range} range",
        ]
        if inside.rotation:
            lines.append(f"turned by {inside.rotation} degrees to stand upright")
        if inside.aspect != 1:
            lines.append(f"pixels are {inside.aspect} as wide as high")
        dropped = [
            *inside.other_streams,
            *([f"{inside.chapters} chapters"] * (inside.chapters > 0)),
        ]
        dropped += [f"{key}: {value}" for key, value in inside.metadata.items()]
        lines += [f"a release drops: {what}" for what in dropped]
        lines += [f"note: {warning}" for warning in inside.warnings]
        told = {name: getattr(inside, name) for name in _PROBE_FIELDS}
        told |= {"rate": str(inside.rate), "aspect": str(inside.aspect)}
        return CommandResult(data={"private": True, **told}, lines=lines)


@dataclass(frozen=True, kw_only=True)
class MakeMasks:
    """Make masks of people in a data set's videos with a segmenter, for --masks.

    They show where people are, so they are private until you take them as public. Masks that stand
    already are kept.

    Args:
        out: a folder for NAME.masks.npz; it is made.
        side: the side of the masks that will be private, on which doubt falls.
        mask_threshold: how sure the segmenter must be of a pixel that is to be public.
        mask_margin: pixels by which the public side is made smaller.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "datasets")

    out: Positional[Path]
    side: Literal["background", "person"]
    mask_threshold: float = THRESHOLD
    mask_margin: int = MARGIN_PX

    def run(self, entry: Collection[Any]) -> CommandResult:
        """One recording after the other."""
        from masquerade.vision.person_detector import PersonSegmenter  # needs an extra

        if entry.kind is not Medium.VIDEOS or entry.ABOUT.is_made_up:
            raise BadInput(f"Expected videos without masks of their own, got {entry.ABOUT.title}.")
        segmenter = PersonSegmenter(
            private=self.side, threshold=self.mask_threshold, margin_px=self.mask_margin
        )
        segmenter.load_networks()
        made = 0
        with make_progress_bars() as progress:
            task = progress.add_task("making masks", total=len(entry))
            for index, known in enumerate(entry.labels):
                target = self._mask_path(known.name)
                if not target.exists():
                    mask = segmenter.segment_frames(entry[index].frames)
                    data = mask_files.pack_mask(mask, private=self.side, made_by=segmenter.in_words)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    atomic.write_whole(target, data, is_private=True)
                    made += 1
                progress.advance(task)
        said = f"Made {made} masks in {self.out}, for {self.side} private; "
        said += f"{len(entry) - made} stood already. Look at them before you use them: a private "
        said += "pixel that was missed is used without noise."
        return CommandResult(data={"made": made, "stood": len(entry) - made}, lines=[said])

    def _mask_path(self, name: str) -> Path:
        stem = PurePosixPath(name).with_suffix("")
        if stem.is_absolute() or ".." in stem.parts:
            raise BadInput(f"Expected a recording's name below its folder, got {name!r}.")
        return self.out / f"{stem}.masks.npz"


COMMANDS = {
    "list": ListData,
    "check": CheckData,
    "show": ShowData,
    "masks": MakeMasks,
    "make": MakeData,
    "write": WriteData,
    "sample": WriteSample,
    "probe": ProbeFiles,
}
