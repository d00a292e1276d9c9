"""What public weights know alone: the handful is drawn by class, and its nearest mean names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from experiments import videos
from experiments.videos import Features
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.networks.network import MvitSmall
from masquerade.recordings import Video

torch = pytest.importorskip("torch")


@dataclass(frozen=True, kw_only=True)
class Shades(Collection[Video]):
    """Films of one shade each; what is done is the shade."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Shades", kind=Medium.VIDEOS, licence="", home="", citation=""
    )
    CLASSES: ClassVar[tuple[str, ...]] = ("dark", "light")
    count: int = 8
    frames: int = 18

    def check(self) -> tuple[CountLine, ...]:
        return ()

    def _find(self) -> Sequence[Labels]:
        return [Labels(name=str(n), activity=self.CLASSES[n % 2]) for n in range(self.count)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng(index)
        picture = rng.integers(0, 30, (self.frames, 32, 32, 3), np.uint8) + 200 * (index % 2)
        activity = self.CLASSES[index % 2]
        return Video(frames=picture.astype(np.uint8), rate_hz=10.0, activity=activity)


def test_classes_that_the_features_tell_apart_are_named_from_two_examples() -> None:
    told: list[tuple[int, int]] = []
    runs = videos.score_public_weights(
        MvitSmall(from_scratch=True),
        Shades(),
        Shades(count=4),
        2,
        each=2,
        progress=lambda *counts: told.append(counts),
    )
    assert runs.tested == 4 and list(runs.shares) == [1.0, 1.0]
    assert told[-1][0] == told[-1][1] and [one for one, _ in told] == sorted(o for o, _ in told)


def test_a_handful_has_as_many_of_each_class_and_differs_by_draw() -> None:
    data = Shades(count=40)
    draws = [videos.draw_handful(data, each=3, seed=seed) for seed in range(5)]
    for some in draws:
        assert len(set(some)) == 6 and sum(index % 2 for index in some) == 3
    assert len({tuple(some) for some in draws}) > 1
    assert videos.draw_handful(data, each=3, seed=0) == draws[0]


def test_features_that_say_nothing_are_at_chance_and_telling_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    targets = np.arange(400) % 4
    blind = rng.normal(size=(400, 16)).astype(np.float32)
    seeing = blind + 4 * np.eye(16, dtype=np.float32)[targets]
    handfuls = [rng.permutation(200)[:40].tolist() for _ in range(5)]
    found = {}
    for name, values in (("blind", blind), ("seeing", seeing)):
        shown = Features(values=values[:200], targets=targets[:200])
        asked = Features(values=values[200:], targets=targets[200:])
        found[name] = videos.match_nearest(shown, handfuls, asked)
    assert found["blind"].mean < 0.35 < 0.9 < found["seeing"].mean
    assert found["seeing"].tested == 200 and len(found["seeing"].shares) == 5


def test_examples_are_public_people_of_another_world() -> None:
    stage = videos.make_examples(Stage(split="train", correlation=0.9, frames=20))
    assert (stage.seed, stage.split, stage.repertoire) == (2_000, "public", "daily")
    assert (stage.correlation, stage.frames) == (0.9, 20)


@pytest.mark.parametrize(
    ("data", "test", "more", "message"),
    [
        (Shades(count=4), Shades(), {}, "Expected 3 examples of dark at least, got 2"),
        (Shades(), Shades(frames=8), {}, "Expected at least 16 frames, got 8"),
        (Stage(), Shades(), {}, "same activities as the test's dark, light"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    data: Any, test: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        videos.score_public_weights(MvitSmall(from_scratch=True), data, test, 1, **more)
