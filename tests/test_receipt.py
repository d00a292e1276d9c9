"""The receipt is public, ties a file to a promise, and holds nothing private."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import Noise, Receipt, check_receipt, make_mechanism, release_file, release_value
from masquerade.account import epsilon
from masquerade.account.parts import UnsupportedEvent
from masquerade.errors import BadInput
from masquerade.guarantee import Kind

MECHANISM = make_mechanism(
    "gaussian_noise", epsilon=2, delta=1e-5, unit="frame", low=0.0, high=10.0
)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(4, 3) % 10)
    return release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM).value


def edit(target: Path, change: Callable[[dict[str, Any]], None]) -> None:
    beside = target.with_name(target.name + ".receipt.json")
    data = json.loads(beside.read_text())
    change(data)
    beside.write_text(json.dumps(data))


def test_neighbours_under_the_same_bits_give_the_same_receipt(
    same_bits: Callable[[], Noise],
) -> None:
    value, neighbour = MECHANISM.worst_case((4, 3))
    one = release_value(value, MECHANISM, noise=same_bits())
    other = release_value(neighbour, MECHANISM, noise=same_bits())
    assert not np.array_equal(one.value, other.value)
    assert one.receipt.output_sha256 != other.receipt.output_sha256
    blank = {"output_sha256": "0" * 64, "date": ""}
    assert dataclasses.replace(one.receipt, **blank) == dataclasses.replace(other.receipt, **blank)
    assert not one.receipt.is_rehearsal


def test_files_of_neighbours_differ_only_in_value_and_hash(
    same_bits: Callable[[], Noise], tmp_path: Path
) -> None:
    receipts = []
    for name, value in zip(("bob", "alice"), MECHANISM.worst_case((4, 3)), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / f"{name}.npy", value)
        done = release_file(
            folder / f"{name}.npy", folder / "out.npy", MECHANISM, noise=same_bits()
        )
        text = done.value.with_name("out.npy.receipt.json").read_text()
        assert name not in text and str(tmp_path) not in text
        receipts.append(text.replace(done.receipt.output_sha256, "").replace(done.receipt.date, ""))
    assert receipts[0] == receipts[1]


def test_an_untouched_file_passes(released: Path) -> None:
    receipt = check_receipt(released)
    assert receipt.guarantee.epsilon == 2.0
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_a_changed_file_is_noticed(released: Path) -> None:
    released.write_bytes(released.read_bytes()[:-1] + b"\0")
    with pytest.raises(BadInput, match="it was changed"):
        check_receipt(released)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["guarantee"].update(epsilon=0.1),
        lambda data: data["guarantee"]["unit"].update(name="video"),
        lambda data: data["event"].update(noise_multiplier=99.0),
        lambda data: data["fields"].update(epsilon=0.1),
        lambda data: data["guarantee"].update(assumed_public=[]),
        lambda data: data.update(mechanism="magic"),
        lambda data: data.update(event={"class_name": "os.system"}),
        lambda data: data.update(format=2),
        lambda data: data.update(is_rehearsal=True),
        lambda data: data.pop("guarantee"),
        lambda data: data.update(input_sha256="00"),
    ],
)
def test_an_edited_receipt_is_noticed(
    released: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    edit(released, change)
    with pytest.raises(BadInput):
        check_receipt(released)


@pytest.mark.parametrize(
    ("factor", "is_taken"), [(1 + 3e-9, True), (1 - 3e-9, True), (1 + 1e-5, False)]
)
def test_a_receipt_of_another_processor_passes_and_one_of_other_noise_does_not(
    released: Path, factor: float, is_taken: bool
) -> None:
    """Searches for noise ended 2e-9 apart on three kinds of kernels."""

    def change(data: dict[str, Any]) -> None:
        data["event"]["noise_multiplier"] *= factor

    edit(released, change)
    if is_taken:
        assert check_receipt(released).guarantee == MECHANISM.guarantee((4, 3))
        return
    with pytest.raises(BadInput, match="states another one"):
        check_receipt(released)


def test_missing_pieces_are_named(released: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is none"):
        check_receipt(tmp_path / "nothing.npy")
    beside = released.with_name("out.npy.receipt.json")
    beside.write_text("{")
    with pytest.raises(BadInput, match="cannot be one"):
        check_receipt(released)
    beside.unlink()
    with pytest.raises(BadInput, match="nothing is known"):
        check_receipt(released)


def test_a_rehearsal_says_so_in_type_name_and_receipt(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((4, 3)))
    done = release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, noise=Noise(seed=1))
    assert done.value.name == "out.rehearsal.npy" and not (tmp_path / "out.npy").exists()
    assert done.receipt.is_rehearsal and done.receipt.guarantee.kind is Kind.NONE
    assert done.receipt.guarantee.epsilon is None
    assert check_receipt(done.value).is_rehearsal
    with pytest.raises(ValueError, match="rehearsal"):
        dataclasses.replace(done.receipt, guarantee=MECHANISM.guarantee((4, 3)))
    with pytest.raises(UnsupportedEvent):
        epsilon(done.receipt.dp_event, delta=1e-5, relation="replace_one")


def test_a_receipt_cannot_be_built_so_that_it_lies() -> None:
    receipt = release_value(np.zeros((4, 3)), MECHANISM).receipt
    for change in (
        {"event": {"class_name": "NonPrivateDpEvent"}},
        {"event": {"class_name": "GaussianDpEvent", "noise_multiplier": float("nan")}},
        {"random_source": "rehearsal: ChaCha20 keyed by a seed"},
        {"output_sha256": "x"},
    ):
        with pytest.raises(ValueError, match="Expected"):
            dataclasses.replace(receipt, **change)
