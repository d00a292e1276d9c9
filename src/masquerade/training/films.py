"""Videos as rows: their views and segments, as a network wants to see them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from masquerade._optional import torch
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.networks.network import Network
from masquerade.recordings import Video
from masquerade.training import views
from masquerade.training.featured import Featured
from masquerade.training.method import Method
from masquerade.training.units import classes_of, unnamed
from masquerade.training.views import Private, PublicPictures

_BATCH = 8


class Films:
    """Turns private videos into what a network's trunk is given, one at a time.

    Args:
        method: which of their pixels are public, and how many segments are taken.
        network: that sees them.
        classes: the public list.
    """

    def __init__(self, method: Method, network: Network, classes: Sequence[str]) -> None:
        self.method, self._network, self._classes = method, network, classes
        self._private = Private(getattr(method, "private", Private.BACKGROUND.value))
        self._masks: list[Any] = []
        self._known: dict[bytes, bytes] = {}
        self.shown = PublicPictures() if isinstance(method, Featured) else None

    def rows(self, recording: Any) -> tuple[dict[str, Any], list[int]]:
        """Its segments in each view, and their classes."""
        video = video_of(recording)
        shown = {"private": self._cut(video.frames)}
        if isinstance(self.method, Featured) and self.shown is not None:
            shown["public"] = self.shown.made(self.method.made_public(), shown["private"])
            if not self.method.HAS_PRIVATE:
                shown["private"] = shown["public"]
        elif self.method.HAS_PUBLIC:
            shown = self._sides(video)
            self._masks.append(video.person_mask)
            _refuse_two_masks(video, self._known)
        with unnamed():
            target = _target(video, self._classes)
        seen = {view: self._network.prepare(films) for view, films in shown.items()}
        return seen, [target] * self.method.segments

    def _sides(self, video: Video) -> dict[str, np.ndarray]:
        """Segments of what the private and the public gradient see.

        Whole recordings, or what is private and nothing else: all that is hidden from the public
        side comes from the mask, and everything that is not is grey.
        """
        frames, side = self._cut(video.frames), self.method.private_side
        covered = self._cut(views.hidden_of(video, self._private))
        if side == "tokens":
            covered = np.stack([views.in_tokens(one, self._network.tokens) for one in covered])
        public = views.on_grey(frames, ~covered)
        if not self.method.HAS_PRIVATE:
            return {"private": public, "public": public}
        private = frames if side == "whole" else views.on_grey(frames, covered)
        return {"private": private, "public": public}

    def _cut(self, frames: np.ndarray) -> np.ndarray:
        return views.segments(frames, count=self.method.segments, length=self._network.length)

    @property
    def mask_sha256(self) -> str | None:
        """Fingerprint of the masks so far, where they are used."""
        return views.fingerprint(self._masks) if self._masks else None


def guesses(
    net: Any,
    network: Network,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """What a network says of every recording's middle segment, and what is right."""
    device = next(net.parameters()).device
    found: list[int] = []
    right: list[int] = []
    held: list[Any] = []
    for index, (film, target) in enumerate(_films_of(collection, network)):
        held.append(film)
        right.append(target)
        if len(held) == _BATCH or index + 1 == len(collection):
            with torch.no_grad():
                found += net(torch.cat(held).to(device)).argmax(dim=1).tolist()
            held.clear()
        progress(index + 1, len(collection))
    if not right:
        raise BadInput("Expected at least one recording to test on, got none.")
    return np.array(found), np.array(right)


def _films_of(collection: Collection[Any], network: Network) -> Iterator[tuple[Any, int]]:
    names = classes_of(collection)
    for index in range(len(collection)):
        video = video_of(collection[index])
        cut = views.segments(video.frames, count=1, length=network.length)
        yield network.prepare(cut), _target(video, names)


def video_of(recording: Any) -> Video:
    """A recording that must be a video."""
    if not isinstance(recording, Video):
        raise BadInput(f"Expected videos to learn from, got {type(recording).__name__}s.")
    return recording


def _refuse_two_masks(video: Video, known: dict[bytes, bytes]) -> None:
    """A recording that is listed twice has one mask: two could together show all of it."""
    content = hashlib.sha256(repr(video.frames.shape).encode())
    content.update(video.frames.tobytes())
    found = views.mark(video)
    if known.setdefault(content.digest(), found) != found:
        raise BadInput(
            "Expected one mask with a recording that is listed twice, got two: what is private "
            "under one would be used without noise under the other. List it once."
        )


def _target(video: Video, names: Sequence[str]) -> int:
    if video.activity not in names:
        raise BadInput("Expected an activity of the list with every recording, got another.")
    return names.index(video.activity)
