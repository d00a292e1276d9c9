"""Stage, released by avatar: films made once, several at a time, kept, and shown in four ways.

Films lie in the cache, one file each, under a name that follows from what they were made of; a run
that was stopped goes on with those that are missing. Only the parts for training and testing are
released. Nobody in them ever lived, so figures are chosen by the film's number and come again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import joblib
import numpy as np

import masquerade
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import atomic, downloads
from masquerade.publish.collections import WrappedVideos
from masquerade.recipes import bench
from masquerade.recipes.released.film import AvatarFilm, Shown
from masquerade.recordings import Video

# People are found in frames of this size; 16 frames are what the networks see.
_WORLD: dict[str, Any] = {"frames": 16, "height": 224, "width": 224}
_WORLD |= {"subjects": 84, "correlation": 0.5}
_VIDEOS = {True: 216, False: 2_592}  # of which half is released
_MAKERS = ("release/avatar", "people", "sight", "data/world")  # whose code films follow from
_TOGETHER = 4  # films that a process makes before it reports


def sized(stage: Stage, *, is_quick: bool = False) -> Stage:
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
        return cls(unmasked=stage, shown=shown, folder=place / _fingerprint(stage))

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
        bench.parts(self)
        return self.part("train"), self.part("test")

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

    def make(self, *, jobs: int = 0, told: bench.Told = bench.quiet) -> None:
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
        atomic.sweep(missing[0][2].parent)
        chunks = [missing[at : at + _TOGETHER] for at in range(0, len(missing), _TOGETHER)]
        calls = (joblib.delayed(_make)(chunk) for chunk in chunks)
        done = 0
        for count in bench.together(calls, jobs=jobs or joblib.cpu_count()):
            done += count
            told("releasing by avatar", done, len(missing))

    def _load(self, index: int) -> Video:
        film, known = self.film(index), self.labels[index]
        frames, mask = film.seen(self.shown)
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


def _fingerprint(stage: Stage) -> str:
    """A name for the films of a world, as today's code makes them."""
    digest = hashlib.sha256(repr(stage.world).encode())
    home = Path(masquerade.__file__).parent
    for folder in _MAKERS:
        for path in sorted((home / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return f"videos-{digest.hexdigest()[:16]}"


def _make(wanted: Sequence[tuple[Stage, int, Path]]) -> int:
    """Some films, in a process of its own."""
    from masquerade.recipes.released.made import made

    for stage, index, path in wanted:
        atomic.write_whole(path, made(stage, index).to_bytes())
    return len(wanted)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How films were released, of all people in them.

    Args:
        films: how many.
        without: of them, in which no figure was drawn.
        frames: with people in them.
        undrawn: of them, without a figure.
        outside: share of people's pixels that q does not cover.
        visible: share of people's pixels that are seen as they were.
        shown_films: of them, in which more than one in a hundred is.
        blurred: frames in which somebody was blurred whom q does not cover.
        certain: share of a released film's pixels that are drawn for certain.
    """

    films: int
    without: int
    frames: int
    undrawn: int
    outside: float
    visible: float
    shown_films: int
    blurred: int
    certain: float

    @classmethod
    def of(cls, films: Iterator[AvatarFilm]) -> Summary:
        """Of films one after the other."""
        rows = np.array([_counts(film) for film in films], float)
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


def _counts(film: AvatarFilm) -> tuple[float, ...]:
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
