"""Rows of Video-DPRP's tables that nobody measured, for several tests."""

from __future__ import annotations

from typing import Any

from experiments.claims import Runs
from experiments.video_dprp_rows import (
    Choices,
    ResultRow,
    RowPromise,
    Setting,
    Spec,
    VideoDprpFound,
)

CHOICES = Choices(epsilons=(2.0, 5.0, 8.0), delta=1e-4, ks=(1200, 3072, 15360), bs=(0.2, 0.8))
SETTING = Setting(
    name="stage",
    shape=(20, 64, 64, 3),
    seen=16,
    train=400,
    test=200,
    classes=12,
    seeds=3,
    network="mvit_small",
    part="head",
    course="sgd",
    epsilons=CHOICES.epsilons,
    delta=CHOICES.delta,
)


def find(*rows: ResultRow, settings: Setting = SETTING, **more: Any) -> VideoDprpFound:
    """Rows that nobody measured, as if they had been."""
    return VideoDprpFound(rows=rows, settings=settings, **more)


def made_up(
    name: str, at: float, share: float, *, unit: str = "video", most: float = 8.0
) -> ResultRow:
    promise = RowPromise(
        epsilon=most, delta=1e-4, unit=unit, frame=most, video=most * (1 + (unit == "frame"))
    )
    return ResultRow(
        spec=Spec(table=2, name=name, at=at),
        promise=promise,
        raw=Runs((share - 0.01, share, share + 0.01), tested=1200),
    )
