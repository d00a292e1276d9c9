"""A small data set of photos of noise with joints, and training on it, for several tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from masquerade import joints
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.networks.network import TinyVitSmall
from masquerade.noise import Noise
from masquerade.publish.models import make_method, train_file
from masquerade.recordings import Photo

torch = pytest.importorskip("torch")


@dataclass(frozen=True, kw_only=True)
class FewPhotos(Collection[Photo]):
    """Eight photos of noise; the first has no joint, the second all of them outside its box."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Few photos", kind=Medium.PHOTOS, licence="none", home="", citation=""
    )
    count: int = 16

    @property
    def joint_names(self) -> tuple[str, ...]:
        return joints.MPII

    def check(self) -> tuple[CountLine, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=f"photo {number}", subject=f"s{number % 3}") for number in range(8)]

    def _load(self, index: int) -> Photo:
        rng = np.random.default_rng(index)
        body = rng.uniform(10, 70, (self.count, 2)).astype(np.float32)
        body[0] = np.nan
        if index == 0:
            body[:] = np.nan
        return Photo(
            image=rng.integers(0, 256, (80, 90, 3), np.uint8),
            joints=body + (1e4 if index == 1 else 0),
            visible=np.zeros(self.count, bool),
            head_px=10.0,
            box=(5.0, 5.0, 70.0, 70.0),
            subject=f"s{index % 3}",
        )


def trains_poses(path: Path, data: Any = None, *, noise: Noise | None = None, **other: Any) -> Any:
    """A model of these photos."""
    fields = {"epsilon": float("inf"), "unit": "record", "part": "head", "batch": 4, "epochs": 2.0}
    ways, ledger = other.pop("ways", None), other.pop("ledger", None)
    return train_file(
        data or FewPhotos(),
        path,
        make_method("dp_sgd", **(fields | other)),
        TinyVitSmall(),
        noise=noise or Noise(),
        ledger=ledger,
        ways=ways,
    )
