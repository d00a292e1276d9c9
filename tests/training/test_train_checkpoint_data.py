"""A checkpoint belongs to the recordings that it was made from, with or without a ledger."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_films import Few, trains
from masquerade.errors import BadInput
from masquerade.publish.models import make_method
from masquerade.recordings import Video
from masquerade.training.learner import ComputeSettings
from masquerade.training.loop import Workload
from masquerade.wording import explain

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


@dataclass(frozen=True, kw_only=True)
class Changed(Few):
    """Films of which one differs."""

    what: str = ""

    def _load(self, index: int) -> Video:
        video = super()._load(index)
        if index != 3 or not self.what:
            return video
        assert video.person_mask is not None
        changes: dict[str, Any] = {
            "frames": {"frames": video.frames ^ np.uint8(1)},
            "mask": {"person_mask": ~video.person_mask},
            "label": {"activity": "walk" if video.activity == "run" else "run"},
        }
        return replace(video, **changes[self.what])


def stop(what: str, done: int, total: int) -> None:
    if what == "training" and done == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["frames", "mask", "label"])
def test_a_checkpoint_of_other_recordings_is_refused_without_a_ledger(
    what: str, tmp_path: Path
) -> None:
    target = tmp_path / "m.safetensors"
    ways = ComputeSettings(work=Workload(checkpoint=tmp_path / "c", every=1))
    words: dict[str, Any] = {"name": "mask_dp", "epsilon": 8.0, "ways": ways}
    with pytest.raises(KeyboardInterrupt):
        trains(target, Changed(), progress=stop, **words)
    with pytest.raises(BadInput, match="got another run's"):
        trains(target, Changed(what=what), **words)
    told: list[int] = []
    done = trains(
        target,
        Changed(),
        progress=lambda what, at, total: told.append(at) if what == "training" else None,
        **words,
    )
    assert told == [2, 3, 4], "the same recordings go on from step 1"
    held = torch.load(_state(tmp_path / "c"), weights_only=True)
    data = json.loads(held["run"])["name"].split()[-1]
    assert len(data) == 64 and data not in done.receipt.to_json(), "it stays in the house"
    assert data.encode() not in target.read_bytes()


def _state(path: Path) -> Any:
    return io.BytesIO(path.read_bytes()[32:])


def test_a_receipt_says_that_the_last_continuation_is_covered() -> None:
    method = make_method("dp_sgd", epsilon=2.0, unit="video")
    said = " ".join(explain(method.guarantee(method.plan_run(8))))
    assert "its last continuation alone, so that its checkpoints stay private" in said
