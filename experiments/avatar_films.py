"""Stage, released by avatar: films made once, several at a time, kept, and shown in four ways.

Films lie in the cache, one file each, under a name that follows from what they were made of; a run
that was stopped goes on with those that are missing. Only the parts for training and testing are
released. Nobody in them ever lived, so figures are chosen by the film's number and come again.

A film's file holds the film, the pixels inside of q of the emptied one and those inside of r of the
released one, which is small: outside of q nothing leaves, and outside of r nothing is drawn.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np

import masquerade
from experiments.engine import Progress, hide_progress, run_parallel, split_data
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import atomic, downloads
from masquerade.noise import Noise
from masquerade.publish.collections import WrappedVideos
from masquerade.recordings import Video
from masquerade.training.views import on_grey
from masquerade.wording import BLURRED_KEY

Shown = Literal["real", "isolated", "emptied", "avatars"]
_MASKS = ("people", "q", "r", "eroded_r")


@dataclass(frozen=True, kw_only=True, eq=False)
class AvatarFilm:
    """All that is known of one film."""

    frames: np.ndarray  # (T, H, W, 3) uint8, as it was
    emptied: np.ndarray  # the same without people
    avatars: np.ndarray  # the same as it is released
    people: np.ndarray  # (T, H, W) bool, where people truly were
    q: np.ndarray  # all that was taken out
    r: np.ndarray  # all that was drawn
    eroded_r: np.ndarray  # what was drawn for certain
    visible: int  # pixels of people that are seen as they were
    blurred: int  # frames in which somebody was blurred whom the masks missed

    def show(self, shown: Shown) -> tuple[np.ndarray, np.ndarray | None]:
        """The frames in one of the ways, and which pixels of them are people's."""
        if shown == "isolated":
            return on_grey(self.avatars, self.eroded_r), self.eroded_r
        if shown == "avatars":
            return self.avatars, self.eroded_r
        return (self.frames, self.people) if shown == "real" else (self.emptied, None)

    def to_bytes(self) -> bytes:
        """A .npz file.

        Raises:
            ValueError: if something changed outside of the masks.
        """
        before = self.frames
        for name, after, mask in (("q", self.emptied, self.q), ("r", self.avatars, self.r)):
            if (before != after)[~mask].any():
                raise ValueError(f"Expected no change outside of {name}, got some.")
            before = after
        stream = io.BytesIO()
        held = {name: np.packbits(getattr(self, name), axis=2) for name in _MASKS}
        held |= {"frames": self.frames, "counts": np.array([self.visible, self.blurred])}
        held |= {"behind": self.emptied[self.q], "drawn": self.avatars[self.r]}
        np.savez(stream, **held)  # type: ignore[arg-type]
        return stream.getvalue()

    @classmethod
    def read(cls, path: Path) -> AvatarFilm:
        """From its file.

        Raises:
            BadInput: if there is none, or it is broken.
        """
        if not path.is_file():
            raise BadInput(f"Expected a film that was released at {path}, got none; make it first.")
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as held:
                return cls._unpack(dict(held))
        except (OSError, EOFError, ValueError, LookupError, zipfile.BadZipFile) as error:
            raise BadInput(f"Expected a whole film in {path}, got {error}; delete it.") from error

    @classmethod
    def _unpack(cls, held: dict[str, np.ndarray]) -> AvatarFilm:
        frames = held["frames"]
        width = frames.shape[2]
        masks = {n: np.unpackbits(held[n], axis=2, count=width).astype(bool) for n in _MASKS}
        emptied = frames.copy()
        emptied[masks["q"]] = held["behind"]
        avatars = emptied.copy()
        avatars[masks["r"]] = held["drawn"]
        visible, blurred = held["counts"].tolist()
        return cls(
            frames=frames,
            emptied=emptied,
            avatars=avatars,
            visible=visible,
            blurred=blurred,
            **masks,
        )


# People are found in frames of this size; 16 frames are what the networks see.
_WORLD: dict[str, Any] = {"frames": 16, "height": 224, "width": 224}
_WORLD |= {"subjects": 84, "correlation": 0.5}
_VIDEOS = {True: 216, False: 2_592}  # of which half is released
_MAKERS = ("avatars", "vision", "stage")  # whose code films follow from
_BATCH = 4  # films that a process makes before it reports


def size_stage(stage: Stage, *, is_quick: bool = False) -> Stage:
    """Stage as avatars want it, unless sizes were given."""
    wanted = _WORLD if stage.preset != "small" else _WORLD | {"videos": _VIDEOS[is_quick]}
    missing = {name: value for name, value in wanted.items() if getattr(stage, name) is None}
    return replace(stage, **missing)


@dataclass(frozen=True, kw_only=True, eq=False)
class AvatarFilms(WrappedVideos):
    """The videos of Stage as they were, or released by avatar.

    Real films have the true mask of all people; released ones eroded r, what is drawn for certain;
    emptied ones have none.

    Args:
        unmasked: Stage.
        shown: real, isolated (figures on grey), emptied (nobody there) or avatars.
        folder: of the films; one in the cache if not given.
    """

    shown: Shown
    folder: Path

    @classmethod
    def of(cls, stage: Stage, shown: Shown = "real", *, folder: Path | None = None) -> AvatarFilms:
        """The films of a world, which need not be made yet."""
        place = folder or downloads.cache_folder() / "avatars"
        return cls(unmasked=stage, shown=shown, folder=place / _name_world(stage))

    @property
    def stage(self) -> Stage:
        """The world that was filmed."""
        return cast(Stage, self.unmasked)

    @property
    def used(self) -> tuple[Self, Self]:
        """The parts for training and testing.

        Raises:
            BadInput: if one was chosen.
        """
        split_data(self)
        return self.select_part("train"), self.select_part("test")

    def path(self, index: int) -> Path:
        """Where a film lies, or will lie."""
        return self.folder / f"{self.labels[index].name}.npz"

    def film(self, index: int) -> AvatarFilm:
        """One film with all that is known of it.

        Raises:
            BadInput: if it was not made, or its file is broken.
        """
        return AvatarFilm.read(self.path(index))

    def as_shown(self, shown: Shown) -> AvatarFilms:
        """The same films in another way."""
        return replace(self, shown=shown)

    def make(self, *, jobs: int = 0, progress: Progress = hide_progress) -> None:
        """Release those films of the parts for training and testing that were not."""
        missing = [
            (part.stage, index, path)
            for part in self.used
            for index in range(len(part))
            if not (path := part.path(index)).is_file()
        ]
        if not missing:
            return
        missing[0][2].parent.mkdir(parents=True, exist_ok=True)
        atomic.remove_dead_files(missing[0][2].parent)
        chunks = [missing[at : at + _BATCH] for at in range(0, len(missing), _BATCH)]
        calls = (partial(_make_films, chunk) for chunk in chunks)
        done = 0
        for count in run_parallel(calls, jobs=jobs):
            done += count
            progress("releasing by avatar", done, len(missing))

    def _load(self, index: int) -> Video:
        film, known = self.film(index), self.labels[index]
        frames, mask = film.show(self.shown)
        return Video(
            frames=frames,
            rate_hz=self.stage.world.rate_hz,
            subject=known.subject,
            place=known.place,
            activity=known.activity,
            view=known.view,
            attributes=known.attributes,
            person_mask=mask,
            is_decoded=False,
        )


def _name_world(stage: Stage) -> str:
    """A name for the films of a world, as today's code makes them."""
    digest = hashlib.sha256(repr(stage.world).encode())
    home = Path(masquerade.__file__).parent
    for folder in _MAKERS:
        for path in sorted((home / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return f"videos-{digest.hexdigest()[:16]}"


def _make_films(wanted: Sequence[tuple[Stage, int, Path]]) -> int:
    """Some films, in a process of its own."""
    for stage, index, path in wanted:
        atomic.write_whole(path, make_film(stage, index).to_bytes())
    return len(wanted)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How films were released, of all people in them."""

    films: int  # how many
    without: int  # of them, in which no figure was drawn
    frames: int  # with people in them
    undrawn: int  # of them, without a figure
    outside: float  # share of people's pixels that q does not cover
    visible: float  # share of people's pixels that are seen as they were
    shown_films: int  # of them, in which more than one in a hundred is
    blurred: int  # frames in which somebody was blurred whom q does not cover
    certain: float  # share of a released film's pixels that are drawn for certain

    @classmethod
    def of(cls, films: Iterator[AvatarFilm]) -> Summary:
        """Of films one after the other."""
        rows = np.array([_count_pixels(film) for film in films], float)
        if not len(rows):
            raise BadInput("Expected at least one film, got none.")
        people, outside, visible, frames, undrawn, drawn, blurred, certain = rows.T
        return cls(
            films=len(rows),
            without=int((drawn == 0).sum()),
            frames=int(frames.sum()),
            undrawn=int(undrawn.sum()),
            outside=float(outside.sum() / max(1, people.sum())),
            visible=float(visible.sum() / max(1, people.sum())),
            shown_films=int((visible > 0.01 * people).sum()),
            blurred=int(blurred.sum()),
            certain=float(certain.mean()),
        )


def _count_pixels(film: AvatarFilm) -> tuple[float, ...]:
    is_there, is_drawn = (mask.any(axis=(1, 2)) for mask in (film.people, film.r))
    return (
        int(film.people.sum()),
        int((film.people & ~film.q).sum()),
        film.visible,
        int(is_there.sum()),
        int((is_there & ~is_drawn).sum()),
        int(is_drawn.sum()),
        film.blurred,
        float(film.eroded_r.mean()),
    )


_VIDEOS_MOST = 1_000_000  # more films than a world has
_SAME, _OTHER = 8, 16  # grey levels: as it was, and other than the place


def make_film(stage: Stage, index: int) -> AvatarFilm:
    """The film before and after; figures follow from the world's seed and the film's number."""
    from masquerade._optional import require_extra  # whoever reads films needs none of this
    from masquerade.avatars.avatar import Avatar

    cv2 = require_extra("cv2", extra="vision")
    cv2.setNumThreads(1)  # films are made side by side
    video = stage[index]
    if not isinstance(video, Video) or video.person_mask is None:
        raise TypeError(f"Expected a video with a mask, got {type(video).__name__}.")
    number = int(stage.labels[index].name.rpartition("/")[2])
    noise, frames = Noise(seed=_VIDEOS_MOST * stage.seed + number), video.frames
    study = Avatar().first_pass(iter(frames), frames.shape, rate_hz=video.rate_hz, noise=noise)
    with closing(study):
        emptied, avatars = map(np.stack, zip(*study.render_steps(iter(frames), noise), strict=True))
        masks = {name: study.stack_masks(name) for name in ("q", "r", "eroded_r")}
        blurred = study.receipt_counts[BLURRED_KEY]
    return AvatarFilm(
        frames=frames,
        emptied=emptied,
        avatars=avatars,
        people=video.person_mask,
        visible=_count_visible(video, avatars, masks["r"], stage.render_empty_place(index)),
        blurred=blurred,
        **masks,
    )


def _count_visible(video: Video, avatars: np.ndarray, r: np.ndarray, place: np.ndarray) -> int:
    """Pixels that differ from the true place by people, and are released nearly as they were."""
    frames = video.frames.astype(np.int16)
    is_other = np.abs(frames - place).max(axis=-1) > _OTHER
    is_same = np.abs(frames - avatars).max(axis=-1) <= _SAME
    return int((np.asarray(video.person_mask) & ~r & is_other & is_same).sum())
