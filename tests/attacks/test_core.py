"""What every attack stands on: cases, intervals, verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade.attacks.attack import Case, RandomRecordings, noise_like
from masquerade.attacks.rates import bootstrap_figure
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Signal, Video
from masquerade.scores import AttackResult, MeasuredRate


def figure(value: float, spread: float = 0.05) -> MeasuredRate:
    return MeasuredRate(
        measure="rank-1",
        value=value,
        low=value - spread,
        high=value + spread,
        count=20,
        of="people",
    )


def attacked(published: float, ceiling: float = 0.9, floor: float = 0.1) -> AttackResult:
    return AttackResult(
        attack="none",
        attacker="nobody",
        published=(figure(published),),
        ceiling=(figure(ceiling),),
        floor=(figure(floor),),
    )


@pytest.mark.parametrize(
    ("published", "ceiling", "word"),
    [
        (0.88, 0.9, "Not stopped"),
        (0.5, 0.9, "Weakened"),
        (0.12, 0.9, "Not told apart from random"),
        (0.12, 0.15, "Too weak"),
    ],
)
def test_a_verdict_counts_its_intervals(published: float, ceiling: float, word: str) -> None:
    assert attacked(published, ceiling).verdict.startswith(word)


def test_measures_of_ceiling_and_floor_must_be_those_of_what_was_published() -> None:
    with pytest.raises(ValueError, match="same measures"):
        AttackResult(attack="a", attacker="b", published=(figure(0.5),), ceiling=(), floor=())


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="interval around"):
        MeasuredRate(measure="m", value=0.5, low=0.6, high=0.7, count=3, of="people")


def test_intervals_over_people_cover_the_truth_and_those_over_rows_do_not() -> None:
    rng, people, rows, held, naive = np.random.default_rng(0), 30, 20, 0, 0
    for trial in range(200):
        mean = rng.beta(2, 2, people)  # people differ
        right = (rng.random((people, rows)) < mean[:, None]).astype(float).reshape(-1)
        whose = np.repeat(np.arange(people), rows)
        for kind, names in (("people", whose), ("rows", np.arange(people * rows))):
            found = bootstrap_figure(
                "share",
                lambda some, right=right: float(right[some].mean()),
                names,
                of=kind,
                seed=trial,
                draws=200,
            )
            held += (found.low <= 0.5 <= found.high) * (kind == "people")
            naive += (found.low <= 0.5 <= found.high) * (kind == "rows")
    assert held >= 178, "95 % intervals must cover about 190 of 200 times"
    assert naive <= 160, "rows of one person are not independent, and the test must see it"


def test_noise_like_shows_nothing_of_a_recording_and_keeps_its_labels() -> None:
    for fill in (0, 255):
        film = Video(frames=np.full((2, 4, 4, 3), fill, np.uint8), rate_hz=30, subject="a")
        made = noise_like(film)
        assert isinstance(made, Video) and made.subject == "a"
        again = noise_like(made)
        assert isinstance(again, Video) and np.array_equal(made.frames, again.frames)
    photo = Photo(image=np.zeros((4, 4, 3), np.uint8))
    worn = Signal(values=np.zeros((8, 2), np.float32), rate_hz=50)
    pictured, felt = noise_like(photo), noise_like(worn)
    assert isinstance(pictured, Photo) and pictured.image.std() > 0
    assert isinstance(felt, Signal) and felt.values.std() > 0


def test_a_case_wants_as_many_raw_as_published_and_a_receipt_to_adapt() -> None:
    film = Video(frames=np.zeros((1, 2, 2, 3), np.uint8), rate_hz=1)
    with pytest.raises(BadInput, match="as many raw"):
        Case(known=[], targets=[film], raw=[])
    with pytest.raises(BadInput, match="receipt"):
        _ = Case(known=[film], targets=[film], raw=[film]).own_releases


def test_every_floor_recording_is_another_nothing_and_streams_share_none() -> None:
    film = Video(frames=np.zeros((1, 8, 8, 3), np.uint8), rate_hz=1)
    drawn = [
        np.asarray(RandomRecordings([film, film], stream=stream)[index].frames).tobytes()
        for stream in (0, 1)
        for index in (0, 1)
    ]
    assert len(set(drawn)) == 4
    again = RandomRecordings([film, film])[-1]
    assert isinstance(again, Video) and again.frames.tobytes() == drawn[1]
