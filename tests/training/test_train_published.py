"""MaskDP's private side: whole recordings, private pixels, or Algorithm 2 as it is printed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from masquerade.networks.network import find_network_class
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.training import loop, step, views
from masquerade.training.method import Method
from masquerade.training.methods import DpSgd, MaskDp
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import FilmReader, Rows
from masquerade.training.views import FILL_LEVEL, PrivateSide

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

UNITS, WIDTH, CLASSES, CLIP = 12, 5, 3, 0.4
PUBLISHED = MaskDp(
    epsilon=math.inf,
    unit="video",
    form="as_published",
    batch=4,
    clip_norm=CLIP,
    learning_rate=0.5,
    warmup=0.0,
    schedule="constant",
)


def rows() -> Rows:
    rng = np.random.default_rng(4)
    private, public = (
        torch.tensor(rng.normal(size=(UNITS, WIDTH)), dtype=torch.float32) for _ in range(2)
    )
    targets = torch.tensor(rng.integers(0, CLASSES, UNITS))
    slots = np.arange(UNITS)[:, None]
    return Rows(private=private, public=public, targets=targets, slots=slots)


def plan(steps: int) -> TrainingPlan:
    sampler = PoissonSampling(units=UNITS, expected=4, is_revealed=True)
    return TrainingPlan(
        sampler=sampler, steps=steps, clip_norm=CLIP, noise_multiplier=0.0, delta=1e-5
    )


def gradient(weights: np.ndarray, inputs: np.ndarray, target: int) -> np.ndarray:
    """Of the cross-entropy of one record in a linear layer without bias."""
    scores = np.exp(weights @ inputs)
    error = scores / scores.sum() - np.eye(CLASSES)[target]
    found: np.ndarray = np.outer(error, inputs)
    return found


def algorithm_2(weights: np.ndarray, batch: np.ndarray, data: Rows, rate: float) -> np.ndarray:
    """One update as printed, without noise [schneider2024, Alg. 2, lines 5 to 12]."""
    assert data.public is not None
    total = np.zeros_like(weights)
    for one in batch:
        target = int(data.targets[one])
        total += gradient(weights, data.public[one].numpy(), target)
        own = gradient(weights, data.private[one].numpy(), target)
        total += own * min(1.0, CLIP / np.linalg.norm(own))
    return weights - rate * total / max(1, len(batch))


def trained(method: Method, steps: int, *, seed: int = 6) -> np.ndarray:
    net = torch.nn.Linear(WIDTH, CLASSES, bias=False)
    torch.nn.init.zeros_(net.weight)
    work = loop.Workload(physical=3)
    loop.run_training(
        net,
        rows(),
        method,
        plan(steps),
        noise=Noise(seed=seed),
        work=work,
        progress=lambda *_: None,
    )
    found: np.ndarray = net.weight.detach().double().numpy()
    return found


def by_hand(steps: int, *, seed: int = 6) -> tuple[np.ndarray, list[int]]:
    weights, noise, sizes = np.zeros((CLASSES, WIDTH)), Noise(seed=seed), []
    for _ in range(steps):
        batch = plan(steps).sampler.sample_batch(noise)
        sizes.append(len(batch))
        weights = algorithm_2(weights, batch, rows(), 0.5)
    return weights, sizes


def test_as_published_an_update_is_algorithm_2() -> None:
    weights, sizes = by_hand(5)
    assert set(sizes) - {4}, "some batch has another size than expected"
    assert np.allclose(trained(PUBLISHED, 5), weights, atol=1e-5)
    rolling = replace(PUBLISHED, momentum=0.9)
    assert not np.allclose(trained(rolling, 5), weights, atol=1e-3), "it is plain descent"


def test_an_empty_batch_as_published_is_a_step_that_goes_nowhere() -> None:
    seed = next(s for s in range(500) if by_hand(1, seed=s)[1] == [0])
    assert not trained(PUBLISHED, 1, seed=seed).any()


def test_noise_and_sum_are_divided_by_the_same_batch() -> None:
    loud = replace(plan(1), noise_multiplier=50.0)
    cells = {"w": torch.zeros(2000, dtype=torch.int64)}
    few, many = (
        step.add_step_noise(cells, loud, Noise(seed=1), among=count)["w"].double()
        for count in (2, 8)
    )
    assert torch.allclose(few, 4 * many, rtol=1e-4)
    assert float(many.std()) == pytest.approx(50 * CLIP / 8, rel=0.1)


def test_only_the_published_form_goes_without_momentum() -> None:
    sound = MaskDp(epsilon=1.0, unit="video")
    assert sound.active_momentum == 0.9 and PUBLISHED.active_momentum == 0.0
    assert (
        replace(sound, momentum=0.3).active_momentum
        == replace(PUBLISHED, momentum=0.3).active_momentum
        == 0.3
    )
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="momentum"):
            DpSgd(epsilon=1.0, unit="video", momentum=wrong)


def test_a_view_with_the_published_form_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="form=independent"):
        MaskDp(epsilon=1.0, unit="video", form="as_published", view="private")
    with pytest.raises(ValueError, match="choose from whole, private"):
        MaskDp(epsilon=1.0, unit="video", view="public")  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "rate"), [(0, 0.05), (9, 0.5), (10, 0.5), (40, 0.5)])
def test_a_constant_rate_stays_once_it_has_risen(number: int, rate: float) -> None:
    method = replace(PUBLISHED, warmup=0.2)
    assert loop.rate_at(method, number, 50) == pytest.approx(rate)


def test_the_papers_rate_rises_for_20_epochs_and_falls_along_a_cosine() -> None:
    method = DpSgd(epsilon=1.0, unit="video", learning_rate=0.01, epochs=150, warmup=20 / 150)
    steps = 1500  # ten an epoch
    rates = [loop.rate_at(method, number, steps) for number in (0, 99, 199, 200, 850, 1499)]
    half = 0.01 * 0.5 * (1 + math.cos(math.pi / 2))
    last = 0.01 * 0.5 * (1 + math.cos(math.pi * 1299 / 1300))
    assert rates == pytest.approx([0.01 / 200, 0.005, 0.01, 0.01, half, last])


def film(seed: int, mask: np.ndarray, *, is_decoded: bool = False) -> Video:
    frames = np.random.default_rng(seed).integers(0, 256, (*mask.shape, 3), np.uint8)
    return Video(
        frames=frames, rate_hz=10, activity="walk", person_mask=mask, is_decoded=is_decoded
    )


def person() -> np.ndarray:
    mask = np.zeros((20, 64, 64), bool)
    mask[:, 10:41, 21:40] = True
    return mask


def shown(method: Method, video: Video) -> dict[str, Any]:
    """Both views as films: the trunk of a network that is trained as a whole."""
    return FilmReader(
        method, find_network_class("mvit_small")(), ("walk", "run")
    ).make_training_rows(video)[0]


SIDES = [
    (MaskDp(epsilon=1.0, unit="video", view="private"), "private"),
    (MaskDp(epsilon=1.0, unit="video", view="private", private="person"), "private"),
    (PUBLISHED, "tokens"),
    (replace(PUBLISHED, private="person"), "tokens"),
]


@pytest.mark.parametrize(("method", "side"), SIDES)
@pytest.mark.parametrize("is_decoded", [False, True])
def test_neither_side_reads_the_others_pixels(
    method: MaskDp, side: str, *, is_decoded: bool
) -> None:
    one, other = (film(seed, person(), is_decoded=is_decoded) for seed in (1, 2))
    is_private = views.find_hidden_pixels(one, PrivateSide(method.private))
    if side == "tokens":
        is_private = np.stack(
            [views.in_tokens(pair, (1, 16, 16)) for pair in is_private.reshape(10, 2, 64, 64)]
        ).reshape(20, 64, 64)
    mixed = replace(one, frames=np.where(is_private[..., None], other.frames, one.frames))
    first, neighbour, stranger = (shown(method, each) for each in (one, mixed, other))
    assert method.private_side == side
    assert torch.equal(first["public"], neighbour["public"]), "a neighbour changes no public view"
    assert torch.equal(neighbour["private"], stranger["private"]), "public pixels are not read"
    assert not torch.equal(first["private"], neighbour["private"])
    assert not torch.equal(neighbour["public"], stranger["public"])


def test_the_whole_view_reads_both_sides() -> None:
    whole = MaskDp(epsilon=1.0, unit="video")
    one, other = film(1, person()), film(2, person())
    for private in (True, False):
        is_taken = person() != private
        mixed = replace(one, frames=np.where(is_taken[..., None], other.frames, one.frames))
        seen = shown(whole, mixed)["private"]
        assert not torch.equal(seen, shown(whole, one)["private"])
        assert not torch.equal(seen, shown(whole, other)["private"])


def test_private_and_public_views_are_the_two_halves_of_a_video() -> None:
    video = film(3, person(), is_decoded=True)
    for private in PrivateSide:
        hidden = views.find_hidden_pixels(video, private)
        own, rest = views.private_view(video, private), views.public_view(video, private)
        assert np.array_equal(np.where(hidden[..., None], own, rest), video.frames)
        assert (own[~hidden] == FILL_LEVEL).all() and (rest[hidden] == FILL_LEVEL).all()


def test_a_token_with_one_private_pixel_is_private() -> None:
    covered = np.zeros((16, 64, 64), bool)
    covered[5, 17, 30] = True
    tokens = find_network_class("mvit_small")().tokens
    assert tokens == (8, 16, 16)
    found = views.in_tokens(covered, tokens)
    expected = np.zeros_like(covered)
    expected[4:6, 16:20, 28:32] = True
    assert np.array_equal(found, expected)
    odd = views.in_tokens(covered[:7, :30, :33], (8, 16, 16))
    assert odd[5, 17, 30] and odd.shape == (7, 30, 33) and odd.sum() <= 1 * 3 * 3
