"""Places are recognised in raw films and not in noise, and every choice of the attacker counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import skimage.data

torch = pytest.importorskip("torch")
from masquerade.attacks.attack import Case, Recording, ignore_progress  # noqa: E402
from masquerade.attacks.place_matching import average_frames, denoise_picture, noise_level  # noqa: E402
from masquerade.attacks.place_retrieval import PlaceRetrieval  # noqa: E402
from masquerade.datasets.stage import Stage  # noqa: E402
from masquerade.errors import BadInput  # noqa: E402
from masquerade.recordings import Photo, Signal, Video  # noqa: E402
from masquerade.stage import plan, takes  # noqa: E402
from masquerade.vision.place_features import PlaceFeatures  # noqa: E402

pytestmark = pytest.mark.usefixtures("private_features")

PLACES, VIEWS = 16, 2


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for a busy core are slower than one that works."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def thumbnails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network in no time: four by four means."""

    def embed(self: PlaceFeatures, frames: np.ndarray) -> np.ndarray:
        side = frames.shape[1] // 4
        small = frames.reshape(len(frames), 4, side, 4, side, 3).mean(axis=(2, 4)).reshape(-1, 48)
        small = small - small.mean(axis=1, keepdims=True)
        return np.asarray(small / np.linalg.norm(small, axis=1, keepdims=True), np.float32)

    monkeypatch.setattr(PlaceFeatures, "embed", embed)
    monkeypatch.setattr(PlaceFeatures, "fingerprint", "thumbnails")


def film(place: int, take: int, frames: int = 3) -> Video:
    """A place of large squares, a little different in each take."""
    rng, again = np.random.default_rng((place, 1)), np.random.default_rng((place, take, 2))
    squares = rng.integers(40, 216, (4, 4, 3)).repeat(8, 0).repeat(8, 1)
    shown = squares + again.integers(-30, 31, (frames, 32, 32, 3))
    return Video(frames=shown.astype(np.uint8), rate_hz=10, place=f"place {place:02}")


def grained(recording: Recording) -> Video:
    """Released: grains as large as the squares, so that raw pictures are of little use."""
    assert isinstance(recording, Video)
    rng = np.random.default_rng(int(recording.frames.sum()))
    grains = rng.integers(-250, 251, (len(recording.frames), 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    return replace(recording, frames=(recording.frames + grains).clip(0, 255).astype(np.uint8))


def case(places: int = PLACES, **changes: object) -> Case:
    known = [film(place, take) for place in range(places) for take in range(VIEWS)]
    raw = [film(place, VIEWS) for place in range(places)]
    made = Case(known=known, targets=[grained(each) for each in raw], raw=raw, release=grained)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.usefixtures("thumbnails")
def test_an_answer_for_each_network_and_attacker_between_ceiling_and_floor() -> None:
    attack = PlaceRetrieval(backbones=("alexnet", "vgg16"), attacker="both", gallery=(16,))
    answers = attack.run(case(), told=ignore_progress)
    assert [each.attacker.split()[0] for each in answers] == ["alexnet"] * 2 + ["vgg16"] * 2
    for each in answers:
        assert each.attack == "place_retrieval" and each.is_telling
        assert each.ceiling[0].value == 1 and each.floor[0].value < 0.3
        assert [found.measure for found in each.published][:2] == ["Top-1 of 16", "Top-5 of 16"]
        assert each.published[0].count == PLACES and each.published[0].of == "places"
    assert "raw pictures" in answers[0].attacker and "learned" in answers[1].attacker


@pytest.mark.usefixtures("thumbnails")
def test_frames_that_are_averaged_bring_back_what_noise_hid() -> None:
    def films(frames: int) -> Case:
        long = [film(place, VIEWS, frames) for place in range(PLACES)]
        return case(raw=long, targets=[grained(each) for each in long])

    one, many = (
        PlaceRetrieval(gallery=(16,), frames=count, motion="still").run(
            films(16), told=ignore_progress
        )[0]
        for count in (1, 16)
    )
    assert many.published[0].value > one.published[0].value + 0.2
    assert "mean of 16 as they stand" in many.attacker


@pytest.mark.usefixtures("thumbnails")
def test_what_is_attacked_is_not_changed_and_how_far_it_is_is_told() -> None:
    whole, lines = case(), []
    before = [np.array(each.frames) for each in whole.targets if isinstance(each, Video)]
    PlaceRetrieval(gallery=(16,), rule="spread", frames=2, attacker="both").run(
        whole, told=lambda what, done, total: lines.append((what, done, total))
    )
    for each, frames in zip(whole.targets, before, strict=True):
        assert isinstance(each, Video) and np.array_equal(each.frames, frames)
    assert ("look at published", PLACES, PLACES) in lines
    assert ("look at gallery", PLACES * VIEWS, PLACES * VIEWS) in lines


@pytest.mark.usefixtures("thumbnails")
def test_few_places_are_said_and_fewer_refused() -> None:
    (found,) = PlaceRetrieval().run(case(places=5), told=ignore_progress)
    assert any("Too few places: with 5" in note for note in found.notes)
    nowhere = [replace(film(place, 0), place=None) for place in range(3)]
    with pytest.raises(BadInput, match="at least two places"):
        PlaceRetrieval().run(case(known=nowhere), told=ignore_progress)
    with pytest.raises(BadInput, match="receipt"):
        PlaceRetrieval(attacker="adaptive").run(case(release=None), told=ignore_progress)


@pytest.mark.usefixtures("thumbnails")
def test_photos_have_places_and_signals_none() -> None:
    def photo(place: int, take: int) -> Photo:
        made = film(place, take)
        return Photo(image=made.frames[0], attributes={"place": str(made.place)})

    known = [photo(place, take) for place in range(PLACES) for take in range(2)]
    raw = [photo(place, 5) for place in range(PLACES)]
    (found,) = PlaceRetrieval(frames=4).run(
        Case(known=known, targets=raw, raw=raw), told=ignore_progress
    )
    assert found.published[0].value == 1
    worn = Signal(values=np.zeros((5, 2), np.float32), rate_hz=1, attributes={"place": "a"})
    with pytest.raises(BadInput, match="got signals"):
        PlaceRetrieval().run(Case(known=[worn], targets=[worn], raw=[worn]), told=ignore_progress)


def test_fields_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="Unknown backbone"):
        PlaceRetrieval(backbones=("resnet19",))
    with pytest.raises(ValueError, match=r"got 0\. resnet18: .* torchvision's resnet18"):
        PlaceRetrieval(backbones=("resnet18", "vgg16"))
    with pytest.raises(ValueError, match="nothing to find"):
        PlaceRetrieval(gallery=(1,))
    with pytest.raises(ValueError, match="frames"):
        PlaceRetrieval(frames=0)


def test_a_mean_along_the_flow_follows_what_moves() -> None:
    photo = skimage.data.astronaut()[60:300, 80:320]
    frames = np.stack([photo[20:148, 20 + 2 * step : 148 + 2 * step] for step in range(7)])
    grains = np.random.default_rng(0).integers(-20, 21, frames.shape)
    noisy = (frames + grains).clip(0, 255).astype(np.uint8)
    errors = {
        motion: np.abs(average_frames(noisy, 3, count=7, motion=motion).astype(int) - frames[3])[
            16:-16, 16:-16
        ].mean()
        for motion in ("flow", "still")
    }
    single = np.abs(noisy[3].astype(int) - frames[3])[16:-16, 16:-16].mean()
    assert errors["flow"] < 0.75 * single < single < errors["still"]
    np.testing.assert_array_equal(average_frames(noisy, 3, count=1, motion="flow"), noisy[3])
    first = average_frames(noisy, 0, count=3, motion="still")
    np.testing.assert_array_equal(first, np.rint(noisy[:3].mean(axis=0)).astype(np.uint8))


def test_the_noise_of_a_picture_is_measured_and_taken_out() -> None:
    clean = np.full((80, 80, 3), 120, np.uint8)
    clean[:, 40:] = 180
    rng = np.random.default_rng(0)
    noisy = (clean + 12 * rng.uniform(-(3**0.5), 3**0.5, clean.shape)).round().astype(np.uint8)
    assert 10 < noise_level(noisy) < 14 and noise_level(clean) < 2
    before, after = (
        np.abs(each.astype(int) - clean).mean() for each in (noisy, denoise_picture(noisy))
    )
    assert after < 0.8 * before
    np.testing.assert_array_equal(denoise_picture(clean[:1, :1]), clean[:1, :1])


def test_stage_has_places_that_can_be_recognised_and_noise_has_none() -> None:
    world = Stage(frames=1, bystanders=0.0).world

    def take(place: int, view: int) -> plan.TakePlan:
        planned = plan.plan_take(world, 7 * place + view, kind="videos")
        return replace(planned, place=place, view=view)

    def video(frames: np.ndarray, place: int) -> Video:
        return Video(frames=frames, rate_hz=10, place=f"{place:02}")

    known = [
        video(takes.render_empty_place(world, take(place, view))[None], place)
        for place in range(12)
        for view in (1, 4)
    ]
    raw = [
        video(takes.shoot_take(world, take(place, 3), kind="videos").frames, place)
        for place in range(12)
    ]
    blank = [replace(each, frames=np.full_like(each.frames, 128)) for each in raw]
    try:
        (found,) = PlaceRetrieval().run(
            Case(known=known, targets=blank, raw=raw), told=ignore_progress
        )
    except (OSError, BadInput) as error:
        pytest.skip(f"the network cannot be had: {error}")
    assert found.ceiling[0].value > 0.5 > 0.3 > found.floor[0].value
    assert found.is_telling and found.verdict.startswith("Not told apart from random")
