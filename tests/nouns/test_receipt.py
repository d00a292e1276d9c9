"""The receipt is public, ties a file to a promise, and holds nothing private."""

from __future__ import annotations

import dataclasses
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files
from masquerade import (
    FileSettings,
    IfExists,
    Noise,
    Receipt,
    check_receipt,
    make_mechanism,
    release_file,
    release_value,
    sign_receipt,
)
from masquerade.accounting import compute_epsilon
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.errors import BadInput, SignatureMissing
from masquerade.events import event_to_json
from masquerade.guarantee import GuaranteeKind
from masquerade.io.signatures import signature_path
from masquerade.receipt import receipt_path
from video_files import KINDS

PNG = video_files.Kind(suffix=".png", codec="png", pixel_format="rgb24")

MECHANISM = make_mechanism(
    "gaussian_noise", epsilon=2, delta=1e-5, unit="frame", low=0.0, high=10.0
)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(4, 3) % 10)
    return release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM).value


def edit(target: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(receipt_path(target).read_text())
    change(data)
    forge(target, json.dumps(data))


def forge(target: Path, text: str) -> None:
    """Another receipt, which nobody has signed."""
    receipt_path(target).write_text(text)
    signature_path(receipt_path(target)).unlink(missing_ok=True)


def test_neighbours_under_the_same_bits_give_the_same_receipt(
    same_bits: Callable[[], Noise],
) -> None:
    value, neighbour = MECHANISM.worst_case((4, 3))
    one = release_value(value, MECHANISM, noise=same_bits())
    other = release_value(neighbour, MECHANISM, noise=same_bits())
    assert not np.array_equal(one.value, other.value)
    assert one.receipt.output_sha256 != other.receipt.output_sha256
    blank = {"output_sha256": "0" * 64, "date": "2020-01-01"}
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
    forge(released, "{")
    with pytest.raises(BadInput, match="cannot be one"):
        check_receipt(released)
    receipt_path(released).unlink()
    with pytest.raises(BadInput, match="nothing is known"):
        check_receipt(released)


def test_a_rehearsal_says_so_in_type_name_and_receipt(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((4, 3)))
    done = release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, noise=Noise(seed=1))
    assert done.value.name == "out.rehearsal.npy" and not (tmp_path / "out.npy").exists()
    assert done.receipt.is_rehearsal and done.receipt.guarantee.kind is GuaranteeKind.NONE
    assert done.receipt.guarantee.epsilon is None
    assert check_receipt(done.value).is_rehearsal
    with pytest.raises(ValueError, match="rehearsal"):
        dataclasses.replace(done.receipt, guarantee=MECHANISM.guarantee((4, 3)))
    with pytest.raises(UnsupportedEvent):
        compute_epsilon(done.receipt.dp_event, delta=1e-5, relation="replace_one")


def test_a_receipt_cannot_be_built_so_that_it_lies() -> None:
    receipt = release_value(np.zeros((4, 3)), MECHANISM).receipt
    for change in (
        {"event": {"class_name": "NonPrivateDpEvent"}},
        {"event": {"class_name": "GaussianDpEvent", "noise_multiplier": float("nan")}},
        {"random_source": "rehearsal: ChaCha20 keyed by a seed"},
        {"output_sha256": "x"},
        {"date": "2024-02-30"},
        {"date": "20240101"},
        {"date": "3026-11-19"},
        {"code_version": "<b>9</b>"},
        {"ledger_sequence": 0},
        {"ledger_head": "x"},
        {"public_seeds": (-1,)},
    ):
        with pytest.raises(ValueError, match="Expected"):
            dataclasses.replace(receipt, **change)


def test_a_receipt_that_says_something_twice_is_refused(released: Path) -> None:
    text = receipt_path(released).read_text()
    forge(released, text.replace('"format": 1', '"format": 1, "format": 1'))
    with pytest.raises(BadInput, match="'format' more than once"):
        check_receipt(released)


FILMED = make_mechanism("pooled_gaussian", epsilon=8, delta=1e-4, unit="pixels", pixels=4)
SIZES = {".npy": (4, 3), ".csv": (4, 3), ".mp4": (8, 24, 32, 3), ".png": (1, 24, 32, 3)}


def output_of(folder: Path, suffix: str) -> Path:
    if suffix in (".npy", ".csv"):
        np.save(folder / "in.npy", np.arange(12.0).reshape(4, 3) % 10)
        return release_file(folder / "in.npy", folder / f"out{suffix}", MECHANISM).value
    if suffix == ".npz":
        np.savez(folder / "in.npz", a=np.ones((4, 3)), b=np.ones((2, 5)))
        mechanism = make_mechanism(
            "gaussian_noise", epsilon=2, delta=1e-5, unit="value", low=0.0, high=10.0
        )
        return release_file(folder / "in.npz", folder / "out.npz", mechanism).value
    kind = KINDS["h264.mp4"] if suffix == ".mp4" else PNG
    source = video_files.make(
        folder / f"in{suffix}", video_files.moving(SIZES[suffix][0], 24, 32), kind
    )
    return release_file(source, folder / f"out{suffix}", FILMED).value


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".mp4", ".png"])
def test_shapes_that_are_not_the_files_are_noticed(suffix: str, tmp_path: Path) -> None:
    target = output_of(tmp_path, suffix)
    held = check_receipt(target)
    mechanism = FILMED if suffix in (".mp4", ".png") else MECHANISM
    if suffix == ".npz":
        mechanism = make_mechanism("gaussian_noise", **held.fields)
    shapes = ((held.shapes[0][0] + 2, *held.shapes[0][1:]), *held.shapes[1:])
    lie = dataclasses.replace(  # with the very guarantee that those shapes have
        held,
        shapes=shapes,
        guarantee=mechanism.guarantee(shapes),
        event=event_to_json(mechanism.event(shapes)),
    )
    forge(target, lie.to_json())
    with pytest.raises(BadInput, match=f"of shape {shapes[0][0]} x .* got {held.shapes[0][0]} x"):
        check_receipt(target)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
@pytest.mark.parametrize("is_headed", [False, True])
def test_a_table_passes_with_and_without_a_heading(
    shape: tuple[int, ...], is_headed: bool, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.ones(shape))
    source = tmp_path / "in.npy"
    if is_headed and len(shape) == 2:
        source = tmp_path / "in.csv"
        rows = [",".join(["1.0"] * shape[1])] * shape[0]
        source.write_text("\n".join([",".join(f"c{i}" for i in range(shape[1])), *rows]))
    options = FileSettings(heading=is_headed, accept_grey=True)
    done = release_file(source, tmp_path / "out.csv", MECHANISM, options=options)
    assert check_receipt(done.value).shapes == (shape,)


@pytest.fixture
def keys(tmp_path: Path, command: Any) -> Path:
    made = command("receipt", "keygen", tmp_path / "mine.pem", "--json")
    assert made.code == 0 and stat.S_IMODE((tmp_path / "mine.pem").stat().st_mode) == 0o600
    assert command("receipt", "keygen", tmp_path / "mine.pem").code == 2, "never replaced"
    return tmp_path


def test_a_signed_receipt_is_known_to_be_by_its_signer(
    released: Path, keys: Path, command: Any
) -> None:
    signed = command("receipt", "sign", released, "--key", keys / "mine.pem", "--json")
    assert signed.code == 0
    done = command("receipt", "check", released, "--signer", keys / "mine.pub.pem", "--json")
    assert done.code == 0 and done.json["signed_by"] == signed.json["key_sha256"]


def test_a_wrong_key_an_edited_receipt_and_no_signature_are_refused(
    released: Path, keys: Path, command: Any
) -> None:
    words = ["receipt", "check", released, "--signer", keys / "mine.pub.pem"]
    signature_path(receipt_path(released)).unlink()
    missing = command(*words)
    assert missing.code == 7 and "an unsigned receipt" in missing.err
    assert command("receipt", "sign", released, "--key", keys / "mine.pem").code == 0
    assert command("receipt", "keygen", keys / "other.pem").code == 0
    other = command("receipt", "check", released, "--signer", keys / "other.pub.pem")
    assert other.code == 7 and "an unknown key" in other.err
    place = signature_path(receipt_path(released))
    signature = place.read_bytes()
    edit(released, lambda data: data.update(date="2020-01-01"))
    assert command("receipt", "check", released).code == 0, "nothing else can notice a date"
    place.write_bytes(signature)
    for each in (words, words[:3]):
        edited = command(*each)
        assert edited.code == 4 and "was changed" in edited.err, "whoever is asked about"
    place.write_text(place.read_text().replace('"signature": "', '"signature": "?'))
    assert command(*words).code == 4
    place.write_text("{}")
    assert "cannot be read" in command(*words).err


def test_a_key_that_others_can_read_or_of_another_kind_is_refused(
    released: Path, keys: Path, command: Any
) -> None:
    words = ["receipt", "sign", released, "--key"]
    (keys / "mine.pem").chmod(0o644)
    assert "chmod 600" in command(*words, keys / "mine.pem").err
    (keys / "none.pem").write_text("hello")
    (keys / "none.pem").chmod(0o600)
    for name in ("none.pem", "nowhere.pem", "mine.pub.pem"):
        assert command(*words, keys / name).code == 4
    done = command("receipt", "check", released, "--signer", keys / "none.pem")
    assert done.code == 4 and "public key" in done.err


def test_a_new_release_does_not_keep_an_old_signature(
    released: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_receipt(released, keys / "mine.pem")
    again = FileSettings(if_standing=IfExists.OVERWRITE)
    release_file(keys / "in.npy", released, MECHANISM, options=again)
    with pytest.raises(SignatureMissing, match="an unknown key"):
        check_receipt(released, signer=keys / "mine.pub.pem")
    monkeypatch.setenv("MASQUERADE_SIGNING_KEY", "")
    release_file(keys / "in.npy", released, MECHANISM, options=again)
    assert not signature_path(receipt_path(released)).exists()
