"""SPAct and ALF: a network redraws frames, one by one, at any size, and never as they were."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from masquerade.guarantee import GuaranteeKind
from masquerade.mechanism import Heuristic
from masquerade.mechanisms.learned_filter import Alf, Spact
from masquerade.networks import small_networks
from masquerade.noise import Noise

pytest.importorskip("torch")
pytest.importorskip("safetensors")


each = pytest.mark.parametrize("mechanism", [Spact(), Alf()], ids=lambda one: one.name)


def some_video(*shape: int) -> np.ndarray:
    """Something smooth, as films are."""
    rows, columns = np.mgrid[: shape[1], : shape[2]] / 9.0
    waves = np.stack([np.sin(rows + k) * np.cos(columns * (k + 1) / 2) for k in range(3)], axis=-1)
    moved = [np.roll(waves, number, axis=1) for number in range(shape[0])]
    return (127.5 + 120 * np.array(moved)).astype(np.uint8)


def released(mechanism: Heuristic, frames: np.ndarray) -> np.ndarray:
    return np.asarray(mechanism.apply(frames, Noise()))


@each
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 5, 3), (3, 67, 33), (1, 90, 161)])
def test_any_size_works_and_the_input_is_not_written_to(
    mechanism: Heuristic, size: tuple[int, ...]
) -> None:
    frames = some_video(*size)
    frames.setflags(write=False)
    out = released(mechanism, frames)
    assert out.shape == frames.shape and out.dtype == np.uint8
    assert not np.shares_memory(out, frames)
    assert np.array_equal(out, released(mechanism, frames))  # nothing in it is random


@each
def test_what_comes_out_is_not_what_went_in(mechanism: Heuristic) -> None:
    for frames in (some_video(1, 96, 96), np.repeat(some_video(1, 96, 96)[..., :1], 3, axis=-1)):
        change = np.abs(released(mechanism, frames).astype(int) - frames)
        assert change.mean() > 5


@each
def test_every_frame_is_drawn_by_itself(mechanism: Heuristic) -> None:
    frames = some_video(3, 40, 56)
    alone = released(mechanism, frames[1:2])
    assert np.array_equal(released(mechanism, frames)[1:2], alone)


@each
def test_a_large_film_is_taken_and_let_go_frame_by_frame(mechanism: Heuristic) -> None:
    alive: list[weakref.ref[np.ndarray]] = []

    def source() -> Iterator[np.ndarray]:
        for _ in range(3):
            frame = np.full((720, 1280, 3), 90, np.uint8)
            alive.append(weakref.ref(frame))
            yield frame
            del frame

    most = 0
    for number, out in enumerate(mechanism.stream(source(), (3, 720, 1280, 3), Noise())):
        assert out.shape == (720, 1280, 3) and len(alive) == number + 1
        most = max(most, sum(held() is not None for held in alive))
    assert most <= 2


@each
def test_nothing_is_promised(mechanism: Heuristic) -> None:
    guarantee = mechanism.guarantee((4, 20, 30, 3))
    assert guarantee.kind is GuaranteeKind.HEURISTIC and guarantee.epsilon is None
    assert mechanism.hides in guarantee.released


@each
def test_the_weights_are_small_and_their_command_is_written_down(mechanism: Heuristic) -> None:
    path = small_networks._WEIGHTS / f"{mechanism.name}.safetensors"
    assert path.stat().st_size < 1_500_000
    said = (Path(small_networks.__file__).parent / "weights" / "README.md").read_text()
    assert f"python tools/anonymise.py --task {mechanism.name}" in said


@pytest.mark.parametrize("kind", [Spact, Alf])
@pytest.mark.parametrize(
    ("lines", "said"), [(8, "at least 16, got lines=8"), (9999, "at most 2160"), (0, "lines=0")]
)
def test_bad_fields_are_refused(kind: type[Heuristic], lines: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(lines=lines)
