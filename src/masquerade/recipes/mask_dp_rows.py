"""What the rows of MaskDP's tables learn from: each recording is read once, in all its views.

A run needs the same recordings several times: whole and with private pixels filled, in one segment
and in three, as the frozen trunk's output and, from scratch, as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade._optional import require
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.nets import mvit
from masquerade.recordings import Video
from masquerade.train import views
from masquerade.train.rows import Rows
from masquerade.train.views import Private

torch = require("torch", extra="train")
Progress = Callable[[int, int], None]
_TOGETHER = 8  # recordings that go through the trunk at once


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which views of a recording are needed.

    Args:
        segments: of the whole recording; odd, so that one of them is the middle one.
        private: which side is filled in the public view; None for no such view.
        has_films: whether the films themselves are kept too, for a network without a trunk.
    """

    segments: int = 1
    private: Private | None = None
    has_films: bool = False

    def __post_init__(self) -> None:
        if self.segments < 1 or self.segments % 2 == 0:
            raise ValueError(f"Expected an odd number of segments, got segments={self.segments}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """A split in all the views that were wanted; as private as the recordings.

    Args:
        whole: (N, S, ...) the trunk's output of S segments.
        public: (N, ...) of the middle segment with its private pixels filled, or None.
        films: (N, 3, T, H, W) the middle segment before the trunk, or None.
        targets: (N,) the class of each recording.
    """

    whole: Any
    public: Any | None
    films: Any | None
    targets: Any

    @property
    def middle(self) -> Any:
        """(N, ...): the trunk's output of the middle segment."""
        return self.whole[:, self.whole.shape[1] // 2]

    def rows(self, *, segments: int = 1, has_public: bool = False) -> Rows:
        """Each recording a unit: its middle segment, or all of them.

        Raises:
            ValueError: if these views are not held.
        """
        if segments not in (1, self.whole.shape[1]) or (has_public and self.public is None):
            raise ValueError(
                f"Expected views that are held, got segments={segments}, has_public={has_public}."
            )
        units = len(self.targets)
        return Rows(
            private=self.middle if segments == 1 else self.whole.flatten(0, 1),
            public=self.public if has_public else None,
            targets=self.targets.repeat_interleave(segments),
            slots=np.arange(units * segments).reshape(units, segments),
        )

    def film_rows(self) -> Rows:
        """Each recording a unit, as the network sees it before anything is computed."""
        if self.films is None:
            raise ValueError("Expected films that are held, got none; ask for has_films.")
        slots = np.arange(len(self.targets))[:, None]
        return Rows(private=self.films, public=None, targets=self.targets, slots=slots)


def read(
    data: Collection[Any],
    net: Any,
    trunk: Any,
    wanted: Wanted,
    *,
    device: str,
    progress: Progress = lambda done, total: None,
) -> Held:
    """Read every recording of a split once.

    Args:
        data: the split.
        net: whose trunk it is.
        trunk: the part that is not trained; on the device.
        wanted: which views.
        device: where everything lies afterwards.
        progress: called with the recordings done and their total.
    """
    sinks: dict[str, Any] = {}
    targets: list[int] = []
    for start in range(0, len(data), _TOGETHER):
        batch = [_video(data, index) for index in range(start, min(start + _TOGETHER, len(data)))]
        targets += [_target(data, video) for video in batch]
        for view, films in _films(batch, wanted, net.name).items():
            with torch.no_grad():
                out = films.to(device) if view == "films" else trunk(films.to(device))
            out = out.unflatten(0, (len(batch), -1)) if view == "whole" else out
            if view not in sinks:
                sinks[view] = torch.empty((len(data), *out.shape[1:]), device=device)
            sinks[view][start : start + len(batch)] = out
        progress(start + len(batch), len(data))
    if not targets:
        raise BadInput("Expected at least one recording, got none.")
    return Held(
        whole=sinks["whole"],
        public=sinks.get("public"),
        films=sinks.get("films"),
        targets=torch.tensor(targets, device=device),
    )


def _films(batch: list[Video], wanted: Wanted, name: str) -> dict[str, Any]:
    """The views of some recordings, as the network wants them."""
    length = mvit.NORMALISATION[name].frames

    def cut(frames: np.ndarray, count: int) -> Any:
        return mvit.prepare(views.segments(frames, count=count, length=length), name)

    found = {"whole": torch.cat([cut(video.frames, wanted.segments) for video in batch])}
    if wanted.private is not None:
        filled = [views.public_view(one, wanted.private) for one in batch]
        found["public"] = torch.cat([cut(frames, 1) for frames in filled])
    if wanted.has_films:
        found["films"] = torch.cat([cut(video.frames, 1) for video in batch])
    return found


def _video(data: Collection[Any], index: int) -> Video:
    video = data[index]
    if not isinstance(video, Video):
        raise BadInput(f"Expected videos to learn from, got {type(video).__name__}s.")
    return video


def _target(data: Collection[Any], video: Video) -> int:
    if video.activity not in data.activities:
        raise BadInput(f"Expected an activity of the list, got {video.activity!r}.")
    return data.activities.index(video.activity)
