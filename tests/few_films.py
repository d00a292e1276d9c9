"""A small data set of films of noise, and training on it, for several tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.networks.network import MvitSmall
from masquerade.noise import Noise
from masquerade.publish.models import make_method, train_file
from masquerade.recordings import Video
from masquerade.training.learner import load_model

torch = pytest.importorskip("torch")


@dataclass(frozen=True, kw_only=True)
class Few(Collection[Video]):
    """Eight films of noise."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Few", kind=Medium.VIDEOS, licence="none", home="", citation=""
    )
    strange: str | None = None
    has_mask: bool = True
    subject: str | None = "s"

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk", "run")

    def check(self) -> tuple[CountLine, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=f"film {number}", subject=self.subject) for number in range(8)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng(index)
        activity = self.strange if index == 5 and self.strange else self.activities[index % 2]
        mask = np.zeros((16, 64, 64), bool)
        mask[:, 10:40, 20:40] = True
        return Video(
            frames=rng.integers(0, 256, (16, 64, 64, 3), np.uint8),
            rate_hz=10,
            activity=activity,
            subject=self.subject and f"{self.subject}{index % 3}",
            person_mask=mask if self.has_mask else None,
        )


def trains(
    path: Path, data: Any = None, name: str = "dp_sgd", *, noise: Noise | None = None, **other: Any
) -> Any:
    fields = {"epsilon": float("inf"), "unit": "video", "part": "head", "batch": 4, "epochs": 2.0}
    ways, tell = other.pop("ways", None), other.pop("progress", lambda *told: None)
    ledger = other.pop("ledger", None)
    return train_file(
        data or Few(),
        path,
        make_method(name, **(fields | other)),
        MvitSmall(from_scratch=True),
        noise=noise or Noise(),
        ledger=ledger,
        ways=ways,
        progress=tell,
    )


def same(one: Path, other: Path) -> bool:
    found = [load_model(path)[0].state_dict() for path in (one, other)]
    return all(torch.equal(found[0][name], found[1][name]) for name in found[0])
