"""A model's file is attacked by models that are trained like it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

pytest.importorskip("torch").set_num_threads(1)

from few_films import Few, trains  # noqa: E402
from masquerade.collection import Labels  # noqa: E402
from masquerade.errors import BadInput  # noqa: E402
from masquerade.publish.attacked import ShadowTraining, make_model_case  # noqa: E402
from masquerade.recordings import Video  # noqa: E402


@dataclass(frozen=True, kw_only=True)
class FewInParts(Few):
    """Five films to learn from, three to test on."""

    split: Literal["train", "test"] | None = None

    def _find(self) -> list[Labels]:
        numbers = range(5) if self.split == "train" else range(5, 8)
        return [Labels(name=f"film {number}", subject=f"s{number % 3}") for number in numbers]

    def _load(self, index: int) -> Video:
        return super()._load(index + (5 if self.split == "test" else 0))


@pytest.mark.parametrize(
    ("unit", "of", "learned"), [("video", "recordings", 5), ("subject", "people", 3)]
)
def test_a_model_is_asked_for_as_many_others_as_it_learned_from(
    unit: str, of: str, learned: int, tmp_path: Path
) -> None:
    trains(tmp_path / "model.safetensors", FewInParts(split="train"), epsilon=4.0, unit=unit)
    case = make_model_case(tmp_path / "model.safetensors", FewInParts())
    assert case.of == of
    assert case.num_units == 6 and case.members is not None and case.members.sum() == 3
    assert case.outputs is not None and case.outputs.shape == (len(case.targets), 2)
    assert case.learn(case.members, 0).shape == case.outputs.shape
    assert isinstance(case.learn, ShadowTraining)
    assert case.learn._select_rows(case.members).num_units == learned, (
        "as many as the published one"
    )
    assert case.allowed is not None and 0.01 < case.allowed(0.01) < case.allowed(0.1) <= 1
    np.testing.assert_array_equal(np.unique(case.whose), np.arange(6))


def test_what_has_a_public_part_is_not_attacked_as_if_it_had_none(tmp_path: Path) -> None:
    trains(tmp_path / "model.safetensors", FewInParts(split="train"), "mask_dp", epsilon=4.0)
    with pytest.raises(BadInput, match="experiments mask_dp"):
        make_model_case(tmp_path / "model.safetensors", FewInParts())
