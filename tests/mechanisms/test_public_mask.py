"""Noise inside a public mask: what is proved, and nothing outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.audits.game import MechanismGame
from masquerade.errors import BadInput
from masquerade.guarantee import GuaranteeKind, Unit, UnitName
from masquerade.mechanisms.public_mask_gaussian import PublicMaskGaussian
from masquerade.noise import Noise
from masquerade.publish.audits import audit_game
from masquerade.tradeoff import gaussian_epsilon

SHAPE = (4, 6, 6, 3)


@pytest.fixture
def mask(tmp_path: Path) -> str:
    """Nothing on the left, level 1 in the middle, level 2 on the right."""
    path = tmp_path / "mask.npy"
    np.save(path, np.repeat([0, 0, 1, 1, 2, 2], 6).reshape(6, 6).T.astype(np.uint8))
    return str(path)


def test_the_bound_is_the_theorems_for_m_sites_and_printed_however_large() -> None:
    made = PublicMaskGaussian(sigma=8.0, delta=1e-5, unit="pixels", pixels=1)
    found = made.guarantee(SHAPE).epsilon
    assert found is not None
    assert found == pytest.approx(gaussian_epsilon(255 * 3**0.5 / 8, 1e-5), rel=1e-3)
    assert found == pytest.approx(1759, abs=1)  # the theorem's number for one RGB pixel
    assert found >= gaussian_epsilon(255 * 3**0.5 / 8, 1e-5)
    one = PublicMaskGaussian(sigma=8.0, delta=1e-5, unit="value").guarantee(SHAPE).epsilon
    assert one == pytest.approx(643.0, abs=0.5)


def test_a_target_is_met_and_more_noise_promises_more() -> None:
    goal = PublicMaskGaussian(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4)
    assert 7.99 < (goal.guarantee(SHAPE).epsilon or 0) <= 8.0
    same = PublicMaskGaussian(
        sigma=goal.compute_scale(SHAPE).sigma, delta=1e-4, unit="pixels", pixels=4
    ).guarantee(SHAPE)
    assert same.epsilon == pytest.approx(8.0, abs=1e-3)


def test_nothing_outside_the_mask_changes_and_levels_have_their_noise(mask: str) -> None:
    made = PublicMaskGaussian(
        sigma=10.0, delta=1e-4, unit="pixels", pixels=1, mask=mask, levels=(2.0,)
    )
    film = np.full((600, 6, 6, 3), 128, np.uint8)
    off = np.asarray(made.apply(film, Noise(seed=1))).astype(float) - 128
    assert not off[:, :, :2].any()
    assert off[:, :, 2:4].std() == pytest.approx(10.0, rel=0.02)
    assert off[:, :, 4:].std() == pytest.approx(20.0, rel=0.02)


def test_a_mask_makes_the_promise_relative_and_no_ledger_takes_it(mask: str) -> None:
    whole = PublicMaskGaussian(sigma=10.0, delta=1e-4, unit="pixels", pixels=4)
    inside = PublicMaskGaussian(sigma=10.0, delta=1e-4, unit="pixels", pixels=4, mask=mask)
    said = inside.guarantee(SHAPE)
    assert (
        whole.guarantee(SHAPE).kind is GuaranteeKind.FORMAL
        and said.kind is GuaranteeKind.FORMAL_RELAXED
    )
    assert said.epsilon == whole.guarantee(SHAPE).epsilon
    assert "outside the mask" in said.not_protected[0]
    unit = Unit(name=UnitName.PIXELS, sites=4, low=0.0, high=255.0)
    assert inside.event_for(SHAPE, unit) is None and whole.event_for(SHAPE, unit) is not None


def test_the_receipt_has_the_masks_hash_and_not_its_place(
    mask: str, tmp_path: Path, command: Any
) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, np.zeros(SHAPE, np.uint8))
    words = ("--mechanism", "public_mask_gaussian", "--sigma", 50, "--delta", 1e-4, "--unit")
    done = command("release", source, target, *words, "frame", "--mask", mask, "--levels", 1.5)
    assert done.code == 0, done.err
    receipt = (tmp_path / "out.npy.receipt.json").read_text()
    assert "mask.npy" not in receipt and '"mask_sha256": "' in receipt
    assert command("receipt", "check", target).code == 0


@pytest.mark.parametrize("unit", ["value", "pixels", "tube", "frame", "video"])
def test_the_worst_case_lies_inside_the_mask(unit: str, mask: str) -> None:
    sites = 3 if unit in ("pixels", "tube") else None
    made = PublicMaskGaussian(
        sigma=9.0, delta=1e-4, unit=unit, pixels=sites, mask=mask, levels=(1.0,)
    )
    one, other = made.worst_case(SHAPE)
    changed = (one != other).any(axis=-1)
    count = {"value": 1, "pixels": 3, "tube": 12, "frame": 12, "video": 48}[unit]
    assert changed.sum() == count and not changed[:, :, :2].any()
    assert (one != other).sum() == (1 if unit == "value" else 3 * count)


def test_the_audit_does_not_refute_the_claim_and_catches_a_quarter_of_the_noise(mask: str) -> None:
    fields: dict[str, Any] = {"delta": 1e-4, "unit": "pixels", "pixels": 2, "mask": mask}
    fields["levels"] = (1.0,)
    made = PublicMaskGaussian(epsilon=4.0, **fields)
    game = MechanismGame(mechanism=made, trials=1000, shape=(1, 6, 6, 3))
    claim = game.claim().epsilon
    assert 2.5 < audit_game(game, noise=Noise(seed=1)).epsilon_at_least <= claim
    weak = PublicMaskGaussian(sigma=made.compute_scale((1, 6, 6, 3)).sigma / 4, **fields)
    cheat = MechanismGame(mechanism=weak, trials=1000, shape=(1, 6, 6, 3))
    assert audit_game(cheat, noise=Noise(seed=2)).epsilon_at_least > claim


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"epsilon": 1.0, "sigma": 2.0}, "one of epsilon and sigma"),
        ({}, "one of epsilon and sigma"),
        ({"sigma": 5.0, "levels": (0.5,)}, r"at least 1.*levels=0\.5"),
        ({"sigma": -1.0}, "sigma=-1"),
        ({"sigma": 5.0, "unit": None}, "Expected a unit"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PublicMaskGaussian(**{"delta": 1e-4, "unit": "frame"} | fields)


def test_masks_that_do_not_fit_are_refused(mask: str, tmp_path: Path) -> None:
    film = np.zeros((2, 6, 6, 3), np.uint8)
    fields: dict[str, Any] = {"sigma": 5.0, "delta": 1e-4, "unit": "frame"}
    with pytest.raises(BadInput, match=r"mask of 0 to 1, got 0 to 2.*--levels"):
        PublicMaskGaussian(**fields, mask=mask).apply(film, Noise())
    with pytest.raises(BadInput, match=r"mask of shape \(5, 6\) or \(2, 5, 6\), got \(6, 6\)"):
        PublicMaskGaussian(**fields, mask=mask, levels=(1.0,)).apply(film[:, :5], Noise())
    with pytest.raises(BadInput, match="no such file"):
        PublicMaskGaussian(**fields, mask=str(tmp_path / "none.npy")).apply(film, Noise())
    with pytest.raises(BadInput, match="its hash alone"):
        PublicMaskGaussian(**fields, mask_sha256="0" * 64).apply(film, Noise())
    with pytest.raises(BadInput, match="of that hash"):
        PublicMaskGaussian(**fields, mask=mask, mask_sha256="0" * 64).apply(film, Noise())
