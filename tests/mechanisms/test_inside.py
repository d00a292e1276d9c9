"""Blur, mosaic and random mask, kept to given masks: the baselines on equal support."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from masquerade.errors import BadInput
from masquerade.mechanisms.filters import Blur, Mosaic, RandomMask
from masquerade.mechanisms.given_masks import InsideMasks
from masquerade.noise import Noise
from masquerade.recordings import Video


def released(mechanism: InsideMasks, frames: np.ndarray) -> np.ndarray:
    return np.asarray(mechanism.apply(frames, Noise(seed=0)))


def some_video(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "mechanism",
    [
        *(Blur(region="given", kernel=kernel, sigma=1e6) for kernel in (5, 31)),
        *(Mosaic(region="given", block=block) for block in (4, 20)),
        RandomMask(region="given", fill="noise", share=1.0),
    ],
    ids=str,
)
def test_only_what_lies_inside_given_masks_is_changed(
    mechanism: InsideMasks, tmp_path: Path
) -> None:
    frames, masks = some_video(3, 40, 50), np.zeros((3, 40, 50), bool)
    masks[:, 10:30, 5:45] = True
    np.save(tmp_path / "masks.npy", masks)
    by_file = replace(mechanism, masks=str(tmp_path / "masks.npy"))
    own = Video(frames=frames, rate_hz=10.0, person_mask=masks)
    whole = released(replace(mechanism, region="all"), frames)
    of_video = mechanism.apply(own, Noise(seed=0))
    assert isinstance(of_video, Video)
    for out in (released(by_file, frames), of_video.frames):
        assert np.array_equal(out[~masks], frames[~masks])
        assert np.array_equal(out[masks], whole[masks])
    with pytest.raises(BadInput, match="got none; name a file with --masks"):
        released(mechanism, frames)
    assert by_file.encode_fields()["masks"] is None, "no receipt names a private file"


def test_masks_of_another_film_are_refused_by_their_header(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "masks.npz", people=np.zeros((64, 1000, 1000), np.uint8))
    mechanism = Mosaic(region="given", masks=str(tmp_path / "masks.npz"))
    tracemalloc.start()
    with pytest.raises(BadInput, match=r"\(3, 40, 50\), got \(64, 1000, 1000\)"):
        released(mechanism, some_video(3, 40, 50))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_very_large_sigma_is_the_plain_average() -> None:
    frames = some_video(1, 30, 30)
    truth = ndimage.uniform_filter(frames[0].astype(float), (5, 5, 0), mode="mirror")
    assert np.abs(released(Blur(kernel=5, sigma=1e6), frames)[0] - truth).max() <= 0.501
