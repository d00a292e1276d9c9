"""Stage for tests of avatars: where people are is known to the pixel."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from masquerade.avatars.avatar import Avatar
from masquerade.avatars.study import AvatarStudy
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.noise import Noise

NETWORKS = ("selfie_segmentation", "pose_detection", "pose_landmark_full", "centerface")


def networks() -> None:
    """Skip where they cannot be had."""
    pytest.importorskip("ai_edge_litert")
    for name in NETWORKS:
        try:
            downloads.fetch_asset(name)
        except (OSError, BadInput) as error:
            pytest.skip(f"{name} cannot be had: {error}")


@contextmanager
def staged(world_cache: Path, **fields: object) -> Iterator[Stage]:
    """A small world, in a cache that has the networks."""
    networks()
    with pytest.MonkeyPatch.context() as patch:
        for name in NETWORKS:
            held = downloads.fetch_asset(name)
            link = world_cache / held.relative_to(downloads.cache_folder())
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(held)
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        size = {"height": 240, "width": 320, "frames": 16, "videos": 60, "bystanders": 0.6}
        yield Stage(preset="small", **(size | fields))  # type: ignore[arg-type]


def studied(mechanism: Avatar, frames: np.ndarray, seed: int = 1) -> tuple[AvatarStudy, np.ndarray]:
    """What is known of a film, and the film with avatars."""
    noise = Noise(seed=seed)
    study = mechanism.first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
    return study, np.stack(list(study.stream(iter(frames), frames.shape, noise)))


def masks_of(study: AvatarStudy, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """r, q and eroded_r, (T, H, W) bool, as they are written."""
    stream = io.BytesIO()
    study.write_sidecar(".masks.npz", stream)
    stream.seek(0)
    width = shape[2]
    return {
        name: np.unpackbits(bits, axis=2, count=width).astype(bool)
        for name, bits in np.load(stream).items()
    }
