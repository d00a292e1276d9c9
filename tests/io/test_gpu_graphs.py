"""Captured work: what it returns is what it would compute, and its noise is never the same twice.

Without a GPU a stand-in records: it does the work again in the same memory, which is what a graph
does. With one, the tests run on both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from masquerade.io import device_graphs, devices
from masquerade.io.device_graphs import sample_device_gaussian
from masquerade.noise import Noise
from masquerade.noise.source import PresampledNoise

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


@pytest.fixture(params=["stand-in", "GPU"])
def captures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Arrays are torch's, and work is captured."""
    if request.param == "GPU" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    device_graphs._known().clear()
    if request.param == "stand-in":
        stand_in(monkeypatch)
    token = devices._DEVICE_NAME.set("cuda" if request.param == "GPU" else "cpu:0")
    yield
    devices._DEVICE_NAME.reset(token)
    device_graphs._known().clear()


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PresampledNoise] = []

    class Listed(PresampledNoise):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    def record(work: Callable[[], list[Any]]) -> tuple[Callable[[], None], list[Any]]:
        reserved, out = made[-1], work()
        for array in out:
            array.fill_(77)  # capturing computes nothing

        def replay() -> None:
            reserved.rewind_slots()
            for array, fresh in zip(out, work(), strict=True):
                array.copy_(fresh)

        return replay, out

    monkeypatch.setattr(device_graphs, "PresampledNoise", Listed)
    monkeypatch.setattr(device_graphs, "_record_work", record)
    monkeypatch.setattr(device_graphs, "_can_capture", lambda: True)


STEPS = np.arange(6.0)


def noisy_sum(given: Any, noise: Noise) -> list[Any]:
    drawn = sample_device_gaussian(noise, 2.0, tuple(given.shape))
    return [given * devices.send_constant(STEPS) + drawn, given.sum(0)]


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, (4, 6)).astype(np.float64)


def done(work: devices.Work, seed: int, noise: Noise, key: str = "key") -> list[np.ndarray]:
    made = device_graphs.replay_work(key, work, devices.send_array(numbers(seed)), noise)
    return [devices.fetch_array(array) for array in made]


def test_what_is_replayed_is_what_would_be_computed(captures: None) -> None:
    noise, plain = Noise(seed=1), Noise(seed=1)
    for call in range(6):
        whole, total = done(noisy_sum, call, noise)
        assert np.array_equal(whole, numbers(call) * STEPS + plain.sample_gaussian(2.0, (4, 6)))
        assert np.array_equal(total, numbers(call).sum(0))
        assert device_graphs.is_captured("key") == (call >= 2)


def test_two_replays_never_have_the_same_noise(captures: None) -> None:
    noise = Noise()
    seen = [done(noisy_sum, 0, noise)[0] - numbers(0) * STEPS for _ in range(6)]
    assert device_graphs.is_captured("key")
    values = np.stack([each.reshape(-1) for each in seen])  # (6, 24): 144 fine-grained numbers
    assert len(np.unique(values)) > 140
    assert np.abs(np.corrcoef(values) - np.eye(6)).max() < 0.9


def test_what_was_returned_stays_as_it_is(captures: None) -> None:
    noise = Noise(seed=2)
    for _ in range(3):
        done(noisy_sum, 0, noise)
    first = device_graphs.replay_work("key", noisy_sum, devices.send_array(numbers(1)), noise)
    before = [devices.fetch_array(array).copy() for array in first]
    done(noisy_sum, 2, noise)
    assert all(
        np.array_equal(a, devices.fetch_array(b)) for a, b in zip(before, first, strict=True)
    )


def test_constants_stay_though_others_push_them_out(captures: None) -> None:
    noise = Noise(seed=3)
    for _ in range(3):
        done(noisy_sum, 0, noise)
    others = [np.full(6, 5.0 + i) for i in range(2 * devices._MAX_CONSTANTS)]
    kept = [devices.send_constant(other) for other in others]
    assert (id(STEPS), devices.device_name()) not in devices._CONSTANTS
    del kept
    plain = Noise(seed=3)
    for _ in range(3):
        plain.sample_gaussian(2.0, (4, 6))
    expected = numbers(4) * STEPS + plain.sample_gaussian(2.0, (4, 6))
    assert np.array_equal(done(noisy_sum, 4, noise)[0], expected)


def by_the_processor(given: Any, noise: Noise) -> list[Any]:
    return [given + devices.send_array(noise.sample_gaussian(2.0, (4, 6)))]


def by_fresh_arrays(given: Any, noise: Noise) -> list[Any]:
    return [given + devices.send_array(np.ones(6)) + sample_device_gaussian(noise, 2.0, (4, 6))]


def by_looking(given: Any, noise: Noise) -> list[Any]:
    return [
        given + float(devices.fetch_array(given).max()) + sample_device_gaussian(noise, 2.0, (4, 6))
    ]


@pytest.mark.parametrize("work", [by_the_processor, by_fresh_arrays, by_looking])
def test_work_that_cannot_be_captured_is_computed_as_ever(
    captures: None, work: devices.Work
) -> None:
    noise, plain = Noise(seed=4), Noise(seed=4)
    shift = {by_the_processor: 0.0, by_fresh_arrays: 1.0}.get(work)
    for call in range(5):
        own = numbers(call).max() if shift is None else shift
        expected = numbers(call) + own + plain.sample_gaussian(2.0, (4, 6))
        assert np.array_equal(done(work, call, noise)[0], expected)
    assert not device_graphs.is_captured("key")


def test_other_shapes_and_keys_are_other_work(captures: None) -> None:
    def doubled(given: Any, noise: Noise) -> list[Any]:
        return [given * 2]

    for size in (3, 5, 3, 5, 3, 5, 3, 5):
        given = np.arange(float(size))
        [made] = device_graphs.replay_work("a", doubled, devices.send_array(given), Noise())
        assert np.array_equal(devices.fetch_array(made), given * 2)
    for i in range(3 * device_graphs._MOST):
        done(noisy_sum, 0, Noise(), key=str(i))
    assert len(device_graphs._known()) == device_graphs._MOST


def test_threads_do_not_share_memory(captures: None) -> None:
    chosen, known = devices.device_name(), []

    def work() -> None:
        devices._DEVICE_NAME.set(chosen)
        noise = Noise(seed=5)
        for _ in range(2):
            done(noisy_sum, 0, noise)
        known.append(device_graphs._known())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(known) == 2 and known[0] is not known[1] and not device_graphs._known()


def test_on_the_processor_nothing_is_kept() -> None:
    device_graphs._known().clear()
    for _ in range(5):
        device_graphs.replay_work("key", lambda given, _: [given], np.ones(3), Noise())
    assert not device_graphs._known() and not device_graphs.is_captured("key")


def test_frames_of_one_tensor_are_that_tensor(captures: None) -> None:
    video = devices.send_array(np.arange(24, dtype=np.uint8).reshape(4, 2, 3))
    assert devices.gather(iter(video)) is video
    for frames in (list(video)[::-1], list(video)[1:], [*list(video)[:3], video[0].clone()]):
        found = devices.gather(frames)
        assert found.data_ptr() != video.data_ptr() and torch.equal(found, torch.stack(frames))


def test_weights_are_counted_in_their_bins(captures: None) -> None:
    rng = np.random.default_rng(6)
    bins, weights = rng.integers(0, 37, 5000), rng.integers(0, 99, 5000).astype(np.float64)
    found = devices.sum_bins(devices.send_array(bins), devices.send_array(weights), 40)
    assert np.array_equal(devices.fetch_array(found), np.bincount(bins, weights, minlength=40))
