"""Damaged arrays, receipts and weights are refused as bad input, whatever the damage is."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.io import arrays
from masquerade.publish.receipts import check_receipt
from masquerade.publish.recording import make_mechanism, release_file
from masquerade.receipt import Receipt

TIMES = 200
FREE = ("public_seeds", "ledger_sequence", "ledger_head", "code_version", "date", "random_source")
FREE += ("is_exact",)  # what another release may well have said
ODD: list[Any] = [None, -1, 0, 1e308, 10**30, 2**63, 0.5, "x", "", [], [[]], {}, True, [1e400 / 2]]
ODD += [
    [10**9] * 4,
    [[10**12, 10**9, 10**9, 3]],
    {"class_name": "GaussianDpEvent"},
    "\ud800",
    [[-4]],
]


def mutants(data: bytes, *, seed: int) -> Iterator[bytes]:
    """The same damaged copies in every run: changed, lost, doubled, cut and foreign bytes."""
    rng = np.random.default_rng(seed)
    for number in range(TIMES):
        made = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            place = int(rng.integers(0, max(1, min(len(made), 300 if number % 2 else len(made)))))
            length = int(rng.integers(1, 9))
            noise = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
            match int(rng.integers(0, 5)):
                case 0:
                    made[place : place + length] = noise
                case 1:
                    del made[place : place + length]
                case 2:
                    made[place:place] = made[place : place + 40]
                case 3:
                    del made[place:]
                case _:
                    made[place : place + 1] = (
                        bytes([made[place] ^ 1 << length % 8]) if made else b""
                    )
        yield bytes(made)


def saved(name: str, folder: Path) -> bytes:
    path, values = folder / name, np.arange(40.0).reshape(8, 5)
    if name == "a.npy":
        np.save(path, values)
    elif name == "packed.npz":
        np.savez_compressed(path, a=values, b=np.ones(3))
    elif name == "a.npz":
        np.savez(path, a=values, b=np.ones(3))
    elif name.endswith(".npz"):
        kind = zipfile.ZIP_LZMA if name == "lzma.npz" else zipfile.ZIP_BZIP2
        inner = io.BytesIO()
        np.save(inner, values)
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("a.npy", inner.getvalue())
    else:
        path.write_text("x,y\n" + "".join(f"{row[0]},{row[1]}\n" for row in values))
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "packed.npz", "lzma.npz", "bz2.npz", "a.csv"])
def test_damaged_arrays_are_read_or_refused(name: str, tmp_path: Path) -> None:
    refused = 0
    for data in mutants(saved(name, tmp_path), seed=len(name)):
        (tmp_path / name).write_bytes(data)
        try:
            table = arrays.read_array_file(
                tmp_path / name, heading=name == "a.csv", max_bytes=1 << 20
            )
            assert sum(array.nbytes for array in table.arrays) <= 1 << 20
        except BadInput:
            refused += 1
    assert refused > TIMES // 4


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.zeros((8, 2)))
    mechanism = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame", low=0, high=1)
    release_file(tmp_path / "in.npy", tmp_path / "out.npy", mechanism)
    (tmp_path / "out.npy.receipt.json.sig").unlink()
    return tmp_path / "out.npy.receipt.json"


def test_damaged_receipts_are_refused(receipt: Path) -> None:
    text = receipt.read_bytes()
    for data in mutants(text, seed=5):
        receipt.write_bytes(data)
        if data != text:
            try:
                check_receipt(receipt.with_name("out.npy"))
            except BadInput:
                continue
            assert json.loads(data).keys() == json.loads(text).keys()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def test_receipts_with_values_of_the_wrong_type_are_refused(receipt: Path) -> None:
    told = json.loads(receipt.read_text())
    rng = np.random.default_rng(3)
    everywhere = [path for path in places(told) if path]
    for path in [everywhere[int(n)] for n in rng.integers(0, len(everywhere), TIMES)]:
        wrong = copy.deepcopy(told)
        inner = wrong
        for key in path[:-1]:
            inner = inner[key]
        odd = ODD[int(rng.integers(len(ODD)))]
        if odd == inner[path[-1]] and type(odd) is type(inner[path[-1]]):
            continue
        inner[path[-1]] = odd
        receipt.write_text(json.dumps(wrong))
        try:
            check_receipt(receipt.with_name("out.npy"))
        except BadInput:
            continue
        assert path[0] in FREE


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", "1" * 5000, '{"a":' * 9999, "\0", "null"])
def test_texts_that_are_no_receipts_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="Expected a receipt"):
        Receipt.from_json(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shapes", [[10**12, 10**9]]),
        ("shapes", [[float("inf")]]),
        ("shapes", [[-1, -1]]),
        ("shapes", 3),
        ("shapes", [3]),
        ("is_rehearsal", "no"),
        ("random_source", 3),
        ("format", True),
        ("output_sha256", None),
        ("fields", []),
        ("event", "x"),
        ("ledger_sequence", "1"),
    ],
)
def test_a_wrong_type_or_an_impossible_shape_is_named(key: str, value: Any, receipt: Path) -> None:
    told = json.loads(receipt.read_text())
    with pytest.raises(BadInput, match="Expected a receipt"):
        Receipt.from_json(json.dumps(told | {key: value}))


@pytest.mark.parametrize("form", ["new", "old", "safe"])
def test_damaged_weights_are_refused(form: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    weight_files = pytest.importorskip("masquerade.networks.weight_files")
    path = tmp_path / "weights"
    tensors = {"head.1.weight": torch.ones(3, 2), "head.1.bias": torch.zeros(3)}
    if form == "safe":
        safetensors.save_file(tensors, path)
    else:
        torch.save(tensors, path, _use_new_zipfile_serialization=form == "new")
    assert weight_files.count_head_classes(path) == 3
    refused = 0
    for data in islice(mutants(path.read_bytes(), seed=len(form)), 100):
        path.write_bytes(data)
        try:
            weight_files.count_head_classes(path)
        except BadInput:
            refused += 1
    assert refused > 25


def test_weights_that_are_no_plain_tensors_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weight_files = pytest.importorskip("masquerade.networks.weight_files")
    for odd in ({3: torch.ones(2)}, {"a": torch.ones(2, 2).to_sparse()}, [torch.ones(2)], {"a": 3}):
        torch.save(odd, tmp_path / "weights")
        with pytest.raises(BadInput, match="tensors by name"):
            weight_files.count_head_classes(tmp_path / "weights")
