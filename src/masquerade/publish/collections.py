"""Collections as commands mean them: data sets by name, their parts, files looked into, and what is
wrapped around a collection of which only the recordings change on their way.

Pictures of a data set: a contact sheet, a film, one recording with all that is known of it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from masquerade import _check, catalog
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.io.video import MAX_PIXELS, probe, read
from masquerade.io.video import write as writer
from masquerade.recordings import Photo, Signal, Video
from masquerade.report import plots, sheet

if TYPE_CHECKING:
    from masquerade.training.method import Method


# parts of photos, the first that there is; MPII's publisher keeps its test's joints
_SPLIT_SYNONYMS = {
    "train": ("train", "training"),
    "test": ("valid", "test", "val", "validation"),
}


def select_split(collection: Collection[Any], wanted: str) -> Collection[Any]:
    """The part of a data set that is meant, unless its own flag names another one.

    Raises:
        BadInput: if it holds no videos.
    """
    if collection.kind != Medium.VIDEOS:
        raise BadInput(f"Expected a data set of videos, got {collection.ABOUT.title}.")
    return collection.select_default_part(wanted)


def select_photos(collection: Collection[Any], wanted: str) -> Collection[Any]:
    """The photos that are meant, unless a flag names a part; publishers call theirs differently.

    Raises:
        BadInput: if it holds no photos.
    """
    photos = collection.select_kind(Medium.PHOTOS)
    there = [name for name in _SPLIT_SYNONYMS[wanted] if name in photos.parts]
    return photos.select_default_part(there[0] if there else wanted)


def select_signals(
    collection: Collection[Any], *, public: str = "", test: str = ""
) -> dict[str, Collection[Any]]:
    """A data set of signals in three: ``train`` is private, ``public``, and ``test``.

    Args:
        collection: with a public split of its own, or with subjects to choose from.
        public: names of subjects whose signals are public, with commas; where there is no split.
        test: names of subjects to test on.

    Raises:
        BadInput: if it holds no signals, or nobody knows whose they are.
        ValueError: if subjects are not named, or not there, or if there is a split already.
    """
    signals = collection.select_kind(Medium.SIGNALS)
    if "public" not in signals.parts:
        return _split_by_subjects(signals, public=public, test=test)
    for split, given in (("public", public), ("test", test)):
        if given:
            raise ValueError(
                f"Expected no --{split}-subjects with "
                f"{catalog.find_entry_name(collection).capitalize()}, "
                f"which has its own {split} split, got {given}; leave it out."
            )
    return {name: signals.select_part(name) for name in ("train", "public", "test")}


def _split_by_subjects(
    collection: Collection[Any], *, public: str, test: str
) -> dict[str, Collection[Any]]:
    bare = [labels.name for labels in collection.labels if labels.subject is None]
    if bare:
        raise BadInput(
            f"Expected to know whose every recording is, got nobody for {bare[0]}; list them in a "
            "manifest with a column subject, or with a column split that says public."
        )
    people = list(dict.fromkeys(str(labels.subject) for labels in collection.labels))
    named = {"public": _parse_names(public), "test": _parse_names(test)}
    for name, chosen in named.items():
        missing = [one for one in chosen if one not in people]
        if missing or not (chosen or name == "test"):
            raise ValueError(
                f"Expected --{name}-subjects with some of {', '.join(people)}, got "
                f"{', '.join(missing) or 'none'}."
            )
    rest = [one for one in people if one not in named["public"] and one not in named["test"]]
    if not rest or set(named["public"]) & set(named["test"]):
        raise ValueError(
            "Expected subjects in one part each, and some that are private, got --public-subjects "
            f"{public} and --test-subjects {test or 'none'} of {', '.join(people)}; name fewer."
        )
    parts = {"train": tuple(rest), **named}
    return {name: collection.select_subjects(chosen) for name, chosen in parts.items() if chosen}


def remove_masks(collection: Collection[Any]) -> Collection[Any]:
    """The collection as it is on disk, where a door has put masks to its recordings."""
    while hasattr(collection, "unmasked"):
        collection = collection.unmasked
    return collection


def describe_public_part(collection: Collection[Any]) -> dict[str, Any]:
    """Which part of which data set this is, in public words: no paths, no names of people.

    Of a made-up world every number that was chosen is said, since nobody lives there. Empty for a
    data set that is not one of ours, whose fields may say anything.

    Example:
        >>> from pathlib import Path
        >>> from masquerade.datasets.folder import Folder
        >>> describe_public_part(Folder(root=Path("/ward"), split="train"))
        {'data': 'folder', 'split': 'train'}
    """
    collection = remove_masks(collection)
    name = catalog.find_entry_name(collection)
    if type(collection).__module__ != f"masquerade.datasets.{name}":
        return {}
    values = {each.name: getattr(collection, each.name) for each in fields(collection)}  # type: ignore[arg-type]
    said = {
        each.name: values[each.name]
        for each in fields(collection)  # type: ignore[arg-type]
        if isinstance(each.default, str | int | float) or each.name == "split"
    }  # paths and people have no such default
    if collection.ABOUT.is_made_up:
        said |= {
            name: _round_trip_json(value) for name, value in values.items() if value is not None
        }
    if "split" in said:
        said["split"] = collection.part_name
    return {"data": name} | said


def _round_trip_json(value: object) -> object:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def is_of_made_up(source_facts: Mapping[str, Any]) -> bool:
    """Whether a model learned from people who never lived, and so did what it began with.

    Args:
        source_facts: what its file says of it.
    """
    name = (source_facts.get("learned") or {}).get("data")
    is_known = (
        name in catalog.list_entries("datasets")
        and catalog.make_example("datasets", name).ABOUT.is_made_up
    )
    return is_known and source_facts.get("first_weights") in ("random", "shipped", "made_up")


def explain_held_out(
    tested: Collection[Any], model_facts: Mapping[str, Any], *, learned_from: int | None = None
) -> str:
    """Why a model did not learn from these recordings; empty where it may have.

    Args:
        tested: what it is tested on.
        model_facts: what the model's file says of it; `describe_public_part` what it learned from.
        learned_from: how many of them are on its private list; None where it has none.

    Returns:
        ``made up``, ``contents`` (none is on the list, and they are another split or data set),
        ``split`` (a publisher's splits of one list are disjoint), ``named`` (the caller chose the
        people, and a model's file does not say whom it learned from), or nothing.
    """
    if tested.ABOUT.is_made_up or is_of_made_up(model_facts):
        return "made up"
    learned, here = model_facts.get("learned") or {}, describe_public_part(tested)
    split, own = here.pop("split", "all"), learned.get("split", "all")
    is_apart = bool(tested.explicit_subjects) if split == "all" else own not in ("all", split)
    if learned_from is not None:  # footage cut or encoded anew is not on the list
        is_other = learned.get("data") not in (None, here.get("data"))
        return "contents" if not learned_from and (is_other or is_apart) else ""
    if split == "all":
        return "named" if is_apart else ""
    is_one = {**learned, "split": ""} == {**here, "split": ""} and bool(tested.ABOUT.citation)
    return "split" if is_one and is_apart else ""


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def select_guides(data: Collection[Any], method: Method) -> Collection[Any] | Sequence[Signal]:
    """Public recordings beside the private ones, where a method needs some."""
    if not method.HAS_SUBSPACE:
        return ()
    if "public" not in data.parts:
        raise ValueError(
            f"Expected a data set with a public part for {method.name}, which finds its subspace "
            f"by public recordings, got {data.ABOUT.title}; use dp_sgd or feature_dp, or train in "
            "Python with public= recordings of your own."
        )
    return data.select_part("public")


@dataclass(frozen=True, kw_only=True, eq=False)
class WrappedVideos(Collection[Video]):
    """A collection of which only the recordings themselves change on their way.

    Args:
        unmasked: the collection.
    """

    ABOUT: ClassVar[DataSource]  # the collection's
    unmasked: Collection[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ABOUT", self.unmasked.ABOUT)

    @property
    def parts(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.parts

    @property
    def explicit_part(self) -> str | None:
        """The collection's."""
        return self.unmasked.explicit_part

    @property
    def part_name(self) -> str:
        """The collection's."""
        return self.unmasked.part_name

    @property
    def explicit_subjects(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.explicit_subjects

    @property
    def activities(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.activities

    @property
    def class_source(self) -> str:
        """The collection's."""
        return self.unmasked.class_source

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The collection's."""
        return self.unmasked.publisher_counts

    def select_part(self, name: str) -> Self:
        """The same of a part of the collection."""
        return replace(self, unmasked=self.unmasked.select_part(name))

    def check(self) -> tuple[CountLine, ...]:
        """The collection's."""
        return self.unmasked.check()

    def _find(self) -> Sequence[Labels]:
        return self.unmasked.labels


def probe_file(path: Path | str, *, max_pixels: int = MAX_PIXELS) -> probe.FileContents:
    """What a video or picture file holds; it is decoded once, all of it."""
    return probe.probe(Path(path), max_pixels=max_pixels)


def read_video(path: Path | str) -> Video:
    """A whole video in memory, as uint8 RGB; for long ones use `release_file`, which streams."""
    frames, rate_hz = read.read_whole(Path(path))
    return Video(frames=frames, rate_hz=rate_hz)


def make_collection(name: str, /, **options: Any) -> Collection[Any]:
    """A data set by its name; the options are the fields of its class, such as ``root``.

    Example:
        >>> len(make_collection("stage", split="test"))
        108
    """
    found: Collection[Any] = type(catalog.make_example("datasets", name))(**options)
    return found


_PICTURES_PER_ROW = 8  # pictures in a row
_MAX_HEIGHT_PX = 128  # pixels; larger pictures are shown smaller
_MAX_FRAMES = 96  # of a recording in a film


def write_sheets(collection: Collection[Any], folder: Path, *, count: int = 12) -> list[Path]:
    """Write pictures of the first recordings of each activity; give the files.

    Args:
        collection: of videos, photos or signals.
        folder: where to; it is made.
        count: how many recordings.
    """
    _check.count(count=count)
    chosen = [collection[index] for index in pick_recordings(collection, count)]
    if not chosen:
        raise ValueError("Expected at least one recording, got an empty collection.")
    folder.mkdir(parents=True, exist_ok=True)
    names = getattr(collection, "joint_names", getattr(collection, "JOINTS", ()))
    if isinstance(chosen[0], Signal):
        files = {"sheet.svg": _draw_signals(chosen[0], collection.activities).encode()}
    elif isinstance(chosen[0], Photo):
        files = {"sheet.svg": photo_sheet(chosen, names).encode()}
    else:
        files = {"sheet.svg": video_sheet(chosen).encode(), "film.mp4": encode_film(chosen)}
    for name, data in files.items():
        atomic.write_whole(folder / name, data, is_private=not collection.ABOUT.is_made_up)
    return [folder / name for name in files]


def pick_recordings(collection: Collection[Any], count: int) -> list[int]:
    """Indices of ``count`` recordings, one an activity as far as there are, then the next ones."""
    first: dict[str | None, int] = {}
    for index, labels in enumerate(collection.labels):
        first.setdefault(labels.activity, index)
    chosen = sorted(first.values())[:count]
    rest = (index for index in range(len(collection)) if index not in chosen)
    return sorted([*chosen, *islice(rest, count - len(chosen))])


def video_sheet(videos: Sequence[Video]) -> str:
    """A row of frames for each video."""
    return sheet.draw_sheet(
        [
            _make_strip(
                video.activity or "video",
                [_shrink_image(video.frames[at]) for at in _choose_times(video)],
            )
            for video in videos
        ]
    )


def photo_sheet(photos: Sequence[Photo], joint_names: Sequence[str]) -> str:
    """Photos in rows, with their joints if their names are known."""
    pictures = []
    for photo in photos:
        joints = photo.joints if joint_names else None
        joints = None if joints is None else joints / _compute_stride(photo.image)
        pictures.append(sheet.SheetPicture(image=_shrink_image(photo.image), joints=joints))
    strips = [
        sheet.SheetStrip(
            label="" if start else "photos", pictures=pictures[start : start + _PICTURES_PER_ROW]
        )
        for start in range(0, len(pictures), _PICTURES_PER_ROW)
    ]
    return sheet.draw_sheet(strips, joint_names=joint_names)


def encode_film(videos: Sequence[Video]) -> bytes:
    """The videos one after the other, as an .mp4; those of another size are left out."""
    shape = videos[0].frames.shape[1:]
    frames = [
        frame
        for video in videos
        if video.frames.shape[1:] == shape
        for frame in video.frames[:_MAX_FRAMES]
    ]
    stream = io.BytesIO()
    rate = Fraction(videos[0].rate_hz).limit_denominator(1001)
    writer.write_video(stream, frames, suffix=".mp4", rate=rate)
    return stream.getvalue()


def draw_together(stage: Stage, index: int) -> str:
    """One video of Stage with its mask, its joints and what the actor's wrist would have felt."""
    video = stage[index]
    if not isinstance(video, Video) or video.person_mask is None or video.joints is None:
        raise ValueError(f"Expected a stage of videos, got kind={stage.kind}.")
    times = _choose_times(video)
    frames = video.frames[times]
    masks = 255 * np.repeat(video.person_mask[times, ..., None], 3, axis=3)
    joints = [
        sheet.SheetPicture(image=frame, joints=at)
        for frame, at in zip(frames, video.joints[times], strict=True)
    ]
    strips = [
        _make_strip(str(video.activity), frames),
        _make_strip("person mask", masks.astype(np.uint8)),
        sheet.SheetStrip(label="joints", pictures=joints),
    ]
    return sheet.draw_sheet(strips, joint_names=stage.joint_names, wave=stage.simulate_wrist(index))


def _choose_times(video: Video) -> np.ndarray:
    """Of the frames that are shown."""
    return np.linspace(0, len(video.frames) - 1, min(_PICTURES_PER_ROW, len(video.frames))).astype(
        int
    )


def _make_strip(label: str, images: Iterable[np.ndarray]) -> sheet.SheetStrip:
    return sheet.SheetStrip(
        label=label, pictures=[sheet.SheetPicture(image=image) for image in images]
    )


def _draw_signals(signal: Signal, activities: Sequence[str]) -> str:
    """The first sensor of one recording over time."""
    seconds = np.arange(len(signal.values)) / signal.rate_hz
    lines = [
        plots.PlotLine(name=name, x=seconds, y=signal.values[:, column])
        for column, name in enumerate(
            signal.channels[:3] or ("x", "y", "z")[: signal.values.shape[1]]
        )
    ]
    title = f"One of {len(activities)} activities at a time, {signal.rate_hz:g} Hz"
    return plots.draw_lines(
        lines, plots.PlotAxes(title=title, x_label="seconds", y_label="reading")
    )


def _compute_stride(image: np.ndarray) -> int:
    return max(1, -(-int(max(image.shape[:2])) // (2 * _MAX_HEIGHT_PX)))


def _shrink_image(image: np.ndarray) -> np.ndarray:
    step = _compute_stride(image)
    return np.ascontiguousarray(image[::step, ::step])
