"""Look into recordings: what a video file holds, which data sets there are, Stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tyro.conf import Positional

from masquerade import catalog
from masquerade.collection import Collection, Count, Medium, cite
from masquerade.compute.progress import bars
from masquerade.data.stage import Stage
from masquerade.doors import Answer, showing
from masquerade.doors.data_sample import Sample
from masquerade.doors.data_writing import WriteData
from masquerade.doors.folder_plan import named_files
from masquerade.doors.mask_making import MakeMasks
from masquerade.errors import BadInput, exit_code, message
from masquerade.people import bodies
from masquerade.recordings import Video
from masquerade.video import MAX_PIXELS, is_video, probe, read

_SHOWN_MISSING = 8
_TOLD = (
    *("frames", "height", "width", "rate_hz", "rate", "seconds", "codec", "container"),
    *("pixel_format", "bits", "colour_range", "rotation", "aspect", "is_variable_rate"),
    *("has_alpha", "header_frames", "other_streams", "metadata", "chapters", "warnings"),
)


def probe_file(path: Path | str, *, max_pixels: int = MAX_PIXELS) -> probe.Contents:
    """What a video or picture file holds; it is decoded once, all of it."""
    return probe.probe(Path(path), max_pixels=max_pixels)


def read_video(path: Path | str) -> Video:
    """A whole video in memory, as uint8 RGB; for long ones use `release_file`, which streams."""
    frames, rate_hz = read.whole(Path(path))
    return Video(frames=frames, rate_hz=rate_hz)


def make_collection(name: str, /, **options: Any) -> Collection[Any]:
    """A data set by its name; the options are the fields of its class, such as ``root``.

    Example:
        >>> len(make_collection("stage", split="test"))
        108
    """
    found: Collection[Any] = type(catalog.example("data", name))(**options)
    return found


def make_stage(stage: Stage, *, device: str = "cpu", is_shown: bool = False) -> dict[str, Path]:
    """Put the videos, photos and signals of a world into the cache; give their folders."""
    found = {}
    with bars(is_shown=is_shown) as progress:

        def bar(what: str) -> Callable[[int, int], None]:
            task = progress.add_task(what, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        bodies.model(progress=bar("baking bodies"))
        for kind in Medium:
            found[str(kind)] = replace(stage, kind=kind).make(
                progress=bar(f"making {kind}"), device=device
            )
    return found


@dataclass(frozen=True, kw_only=True)
class List:
    """List the data sets: what they hold, their licence, and what to cite."""

    def run(self) -> Answer:
        """Every entry of the room, by name."""
        found = {}
        for name in catalog.names("data"):
            example: Collection[Any] = catalog.example("data", name)
            about = example.ABOUT
            found[name] = {
                "title": about.title,
                "kind": ", ".join(example.kinds),
                "licence": about.licence,
                "home": about.home,
                "citation": cite(about.citation) if about.citation else "",
            }
        lines = []
        for name, said in found.items():
            lines.append(f"{name:18} {said['kind']:24} {said['title']}")
            lines += [f"{'':18}   {said[key]}" for key in ("licence", "citation") if said[key]]
        return Answer(data=found, lines=lines)


@dataclass(frozen=True, kw_only=True)
class CheckData:
    """Count the files of a data set against what its publisher says.

    Args:
        recordings: also read every recording, and name those that training could not use. What it
            says is private.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "data")

    recordings: bool = False

    def run(self, entry: Collection[Any]) -> Answer:
        """Read lists and file names; recordings only if asked to."""
        if self.recordings:
            return _read_all(entry)
        counts = entry.check()
        is_right = all(count.is_right for count in counts)
        is_own = not entry.ABOUT.home
        lines = [line for count in counts for line in _said(count, is_own=is_own)]
        bad = "NOT complete." if is_own else "NOT complete, or not the published version."
        lines.append("Complete." if is_right else bad)
        data = {
            "is_right": is_right,
            "counts": [vars(count) | {"is_right": count.is_right} for count in counts],
        }
        return Answer(data=data, lines=lines, exit_code=0 if is_right else 4)


def _read_all(entry: Collection[Any]) -> Answer:
    """Which recordings cannot be read or learned from, and why."""
    faults = []
    with bars() as progress:
        task = progress.add_task("reading", total=len(entry))
        for index, labels in enumerate(entry.labels):
            fault = _fault(entry, index)
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
    return Answer(data=data, lines=lines, exit_code=4 if faults else 0)


def _blank_names(each: Mapping[str, str]) -> str:
    """A fault without the file and the row that it is in: what many may have alike."""
    file = each["name"].partition("#")[0]
    said = re.sub(rf"\S*{re.escape(file)}", "FILE", each["fault"])
    return re.sub(r"(FILE \(.*), line \d+\)", r"\1)", said)


def _count_usable(many: int, faults: int, what: str, done: str) -> str:
    return f"{many - faults} of {many} {what} can be {done}."


def _list_names(names: Sequence[str]) -> list[str]:
    more = len(names) - _SHOWN_MISSING
    lines = [f"    {name}" for name in names[:_SHOWN_MISSING]]
    return [*lines, f"    and {more} more (--json names all)"] if more > 0 else lines


def _fault(entry: Collection[Any], index: int) -> str:
    try:
        recording = entry[index]
    except (ValueError, TypeError, OSError) as error:
        return message(error)
    is_strange = isinstance(recording, Video) and recording.activity not in entry.activities
    if entry.activities and is_strange:
        return f"Expected an activity of the list, got {recording.activity!r}."
    return ""


def _said(count: Count, *, is_own: bool) -> list[str]:
    """A line, and what is missing; nobody has published a number of somebody's own files."""
    told = "" if is_own else " (published number not known)"
    if count.published is not None:
        told = f" of {count.published} (source: {count.source})"
    mark = " " if count.is_right else "!"
    lines = [f"{mark} {count.what}: {count.found}{told}"]
    return lines + _list_names([f"missing: {name}" for name in count.missing])


@dataclass(frozen=True, kw_only=True)
class ShowData:
    """Write a contact sheet of a data set, and a short film where it has videos.

    Args:
        out: folder for them; it is made.
        count: recordings shown, one an activity as far as there are.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "data")

    out: Path = Path("out/data")
    count: int = 12

    def run(self, entry: Collection[Any]) -> Answer:
        """Read a few recordings and draw them."""
        written = showing.show(entry, self.out, count=self.count)
        lines = [] if entry.ABOUT.is_made_up else ["PRIVATE: these are original recordings."]
        lines += [f"Wrote {path}" for path in written]
        return Answer(data={"files": [str(path) for path in written]}, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Make:
    """Make the videos, photos and signals of Stage and keep them in the cache.

    Args:
        device: cpu or cuda, where pictures are drawn.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "data")

    device: str = "cpu"

    def run(self, entry: Collection[Any]) -> Answer:
        """Nothing is made twice."""
        if not isinstance(entry, Stage):
            raise ValueError("Expected stage: other data sets are not made, they are fetched.")
        folders = make_stage(entry, device=self.device, is_shown=True)
        counts = {kind: len(replace(entry, kind=Medium(kind), split="all")) for kind in folders}
        lines = [f"{counts[kind]} {kind} in {path}" for kind, path in folders.items()]
        data = {
            kind: {"count": counts[kind], "folder": str(path)} for kind, path in folders.items()
        }
        return Answer(data=data, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Print what is inside video or picture files.

    Args:
        files: .mp4 .mov .mkv .webm .avi .png .jpg .gif .webp .ts .mts .flv .mpg .3gp, or folders
            of them.
        max_pixels: of a frame; larger ones are refused by their header.
    """

    files: Positional[tuple[Path, ...]]
    max_pixels: int = MAX_PIXELS

    def run(self) -> Answer:
        """Decode all of it and describe it."""
        files: dict[Path, None] = {}  # each once, in order
        for path in self.files:
            inside = named_files([path])[1] if path.is_dir() else [path]
            files |= dict.fromkeys(one for one in inside if is_video(one) or one == path)
        if not files:
            raise BadInput(
                f"Expected videos or pictures in {self.files[0]}, got files of other kinds alone; "
                "give another folder."
            )
        if len(files) == 1:
            return self._one(*files)
        answers = {str(path): self._try(path) for path in files}
        faults = sum(each.exit_code > 0 for each in answers.values())
        answer, count = Answer.of_each(answers), _count_usable(len(files), faults, "files", "read")
        return replace(answer, lines=[*answer.lines, count])

    def _try(self, path: Path) -> Answer:
        """One that cannot be read is said, and the others are looked into all the same."""
        try:
            return self._one(path)
        except (BadInput, OSError) as error:
            said = message(error)
            return Answer(
                data={"private": True, "error": said},
                lines=[f"! {said}"],
                exit_code=exit_code(error),
            )

    def _one(self, path: Path) -> Answer:
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
        told = {name: getattr(inside, name) for name in _TOLD}
        told |= {"rate": str(inside.rate), "aspect": str(inside.aspect)}
        return Answer(data={"private": True, **told}, lines=lines)


COMMANDS = {
    "list": List,
    "check": CheckData,
    "show": ShowData,
    "masks": MakeMasks,
    "make": Make,
    "write": WriteData,
    "sample": Sample,
    "probe": Probe,
}
