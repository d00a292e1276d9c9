"""What a whole body looks like: clothes, hair, skin, build."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from masquerade.attack.case import Recording
from masquerade.attack.people_seen import PoseSearch, SeenBody, frames_of, some_of, told_body
from masquerade.sight.body_colours import ColourLayout
from masquerade.sight.body_features import BodyFeatures

_FRAMES = 4  # of a film that are looked at


@dataclass(frozen=True, kw_only=True)
class BodyCue:
    """Pictures of bodies as rows: features of a network, and colours from head to foot.

    Args:
        is_told: whether the labels say where the body is.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = (
        "pose_detection",
        "pose_landmark_full",
        "efficientnet_lite0",
    )
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)
    network: BodyFeatures = field(default_factory=BodyFeatures)
    colours: ColourLayout = field(default_factory=ColourLayout)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D): one row a frame in which somebody is seen."""
        frames = frames_of(recording, by="body")
        numbers = some_of(len(frames), most=_FRAMES)
        rows = [
            self._row(frames[number], body)
            for number in numbers
            if (body := self._body(recording, frames, number)) is not None
        ]
        return np.array(rows) if rows else np.zeros((0, 1))

    def _body(self, recording: Recording, frames: np.ndarray, number: int) -> SeenBody | None:
        if self.is_told:
            return told_body(recording, number)
        return self.search.nearest(frames[number])

    def _row(self, frame: np.ndarray, body: SeenBody) -> np.ndarray:
        box, mask = body.box[None], body.mask[None]
        return np.concatenate(
            [eye.embed(frame, box, mask)[0] for eye in (self.network, self.colours)]
        )
