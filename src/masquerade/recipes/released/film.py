"""A film before and after its people were replaced by avatars, and its file.

Outside of q nothing leaves, and outside of r nothing is drawn. So the file holds the film, the
pixels inside of q of the emptied one and those inside of r of the released one, which is small.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from masquerade.errors import BadInput
from masquerade.training.views import on_grey

Shown = Literal["real", "isolated", "emptied", "avatars"]
_MASKS = ("people", "q", "r", "eroded_r")


@dataclass(frozen=True, kw_only=True, eq=False)
class AvatarFilm:
    """All that is known of one film.

    Args:
        frames: (T, H, W, 3) uint8, as it was.
        emptied: the same without people.
        avatars: the same as it is released.
        people: (T, H, W) bool, where people truly were.
        q: all that was taken out.
        r: all that was drawn.
        eroded_r: what was drawn for certain.
        visible: pixels of people that are seen as they were.
        blurred: frames in which somebody was blurred whom the masks missed.
    """

    frames: np.ndarray
    emptied: np.ndarray
    avatars: np.ndarray
    people: np.ndarray
    q: np.ndarray
    r: np.ndarray
    eroded_r: np.ndarray
    visible: int
    blurred: int

    def seen(self, shown: Shown) -> tuple[np.ndarray, np.ndarray | None]:
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
                return cls._of(dict(held))
        except (OSError, EOFError, ValueError, LookupError, zipfile.BadZipFile) as error:
            raise BadInput(f"Expected a whole film in {path}, got {error}; delete it.") from error

    @classmethod
    def _of(cls, held: dict[str, np.ndarray]) -> AvatarFilm:
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
