"""A recording is looked at once, and what was seen of it is found by all that the cue was shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from masquerade.attacks.attack import Recording
from masquerade.attacks.cues import CachedCue
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Video
from masquerade.vision import embedding_cache

pytestmark = pytest.mark.usefixtures("private_features")

FILM = Video(
    frames=np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8),
    rate_hz=6,
    subject="a",
    joints=np.zeros((6, 17, 2), np.float32),
)


@dataclass(frozen=True, kw_only=True)
class Counting:
    """A cue that sees as many rows as it is asked for, and counts how often it looked."""

    NETWORKS: ClassVar[tuple[str, ...]] = ("centerface",)
    VERSION: ClassVar[int] = 1

    is_told: bool = False
    rows: int = 2
    looked: list[Recording] = field(default_factory=list)

    def __call__(self, recording: Recording) -> np.ndarray:
        self.looked.append(recording)
        return np.full((self.rows, 3), float(len(self.looked)))


class Later(Counting):
    """The same with other eyes."""

    VERSION: ClassVar[int] = 2


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_what_was_seen_is_kept_also_where_it_was_nobody(rows: int) -> None:
    cue = Counting(rows=rows)
    first, again = CachedCue(cue)(FILM), CachedCue(cue)(replace(FILM, subject="b"))
    assert first.shape == again.shape == (rows, 3) and np.array_equal(first, again)
    assert len(cue.looked) == 1


def test_another_film_or_rate_or_version_is_looked_at_again() -> None:
    cue, later = Counting(), Later()
    frames = FILM.frames.copy()
    frames[3, 2, 1, 0] ^= 1
    for each in (FILM, replace(FILM, frames=frames), replace(FILM, rate_hz=3)):
        CachedCue(cue)(each)
        CachedCue(later)(each)
    assert len(cue.looked) == len(later.looked) == 3


def test_labels_count_where_they_are_read_and_only_there() -> None:
    assert FILM.joints is not None
    other = replace(FILM, joints=FILM.joints + 1)
    for is_told, times in ((False, 1), (True, 2)):
        cue = Counting(is_told=is_told)
        for each in (FILM, other, FILM):
            CachedCue(cue)(each)
        assert len(cue.looked) == times
    photo, cue = Photo(image=FILM.frames[0], subject="a"), Counting(is_told=True)
    CachedCue(cue)(photo)
    joints = np.zeros((17, 2), np.float32)
    CachedCue(cue)(replace(photo, joints=joints, visible=np.ones(17, bool)))
    assert len(cue.looked) == 2


def test_what_is_kept_is_private_and_can_be_forgotten(private_features: Path) -> None:
    cue = Counting()
    CachedCue(cue)(FILM)
    [entry] = private_features.rglob("*.features")
    assert entry.stat().st_mode & 0o077 == 0
    assert embedding_cache.clear_embeddings() == 1
    CachedCue(cue)(FILM)
    assert len(cue.looked) == 2


def test_a_refusal_is_not_kept(private_features: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Refusing(Counting):
        def __call__(self, recording: Recording) -> np.ndarray:
            raise BadInput("Expected another film.")

    with pytest.raises(BadInput, match="another film"):
        CachedCue(Refusing())(FILM)
    assert not list(private_features.rglob("*.features"))
