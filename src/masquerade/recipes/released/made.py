"""Release one film of Stage by avatar, and see what of its people is left."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from masquerade._optional import require
from masquerade.avatars.avatar import Avatar
from masquerade.datasets.stage import Stage
from masquerade.noise import Noise
from masquerade.recipes.released.film import AvatarFilm
from masquerade.recordings import Video
from masquerade.wording import BLURRED

cv2 = require("cv2", extra="vision")


_WORLD = 1_000_000  # more films than a world has
_SAME, _OTHER = 8, 16  # grey levels: as it was, and other than the place


def made(stage: Stage, index: int) -> AvatarFilm:
    """The film before and after; figures follow from the world's seed and the film's number."""
    cv2.setNumThreads(1)  # films are made side by side
    video = stage[index]
    if not isinstance(video, Video) or video.person_mask is None:
        raise TypeError(f"Expected a video with a mask, got {type(video).__name__}.")
    number = int(stage.labels[index].name.rpartition("/")[2])
    noise, frames = Noise(seed=_WORLD * stage.seed + number), video.frames
    study = Avatar().studied(iter(frames), frames.shape, rate_hz=video.rate_hz, noise=noise)
    with closing(study):
        emptied, avatars = map(np.stack, zip(*study.steps(iter(frames), noise), strict=True))
        masks = {name: study.masks(name) for name in ("q", "r", "eroded_r")}
        blurred = study.counted[BLURRED]
    return AvatarFilm(
        frames=frames,
        emptied=emptied,
        avatars=avatars,
        people=video.person_mask,
        visible=_visible(video, avatars, masks["r"], stage.empty(index)),
        blurred=blurred,
        **masks,
    )


def _visible(video: Video, avatars: np.ndarray, r: np.ndarray, place: np.ndarray) -> int:
    """Pixels that differ from the true place by people, and are released nearly as they were."""
    frames = video.frames.astype(np.int16)
    is_other = np.abs(frames - place).max(axis=-1) > _OTHER
    is_same = np.abs(frames - avatars).max(axis=-1) <= _SAME
    return int((np.asarray(video.person_mask) & ~r & is_other & is_same).sum())
