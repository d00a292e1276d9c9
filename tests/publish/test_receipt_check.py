"""What a reader is told of a receipt: whose word it is, and whether the file looks like it."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import real_films
from masquerade import FileSettings, make_mechanism, release_file
from masquerade.io import signatures
from masquerade.io.signatures import signature_path
from masquerade.io.video import write
from masquerade.mechanism import Mechanism
from masquerade.publish.receipts import read_checked
from masquerade.receipt import Receipt, receipt_path

PIXELS = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels"}
ANY = make_mechanism("gaussian_noise", epsilon=2, delta=1e-5, unit="frame", low=0.0, high=10.0)
MARKED = [
    make_mechanism("cosine_gaussian", **PIXELS, pixels=16),
    make_mechanism("cosine_gaussian", **PIXELS | {"unit": "frame"}),
    make_mechanism("pooled_gaussian", **PIXELS, pixels=4),
    make_mechanism("video_dprp", **PIXELS, pixels=16),
]


@pytest.fixture
def released(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(4, 3) % 10)
    return release_file(tmp_path / "in.npy", tmp_path / "out.npy", ANY).value


def test_an_unsigned_receipt_is_what_anyone_could_have_written(
    released: Path, command: Any
) -> None:
    signature_path(receipt_path(released)).unlink()
    done = command("receipt", "check", released)
    first, second, *_ = done.out.splitlines()
    assert done.code == 0 and "Protects" in second and second.startswith("The receipt states (")
    assert first == (
        f"{released} is consistent with an unsigned receipt: anyone could have written it."
    )
    said = command("receipt", "check", released, "--json").json
    assert (said["ok"], said["signature"], said["signed_by"]) == (True, None, None)
    strict = command("receipt", "check", released, "--require-signature")
    assert strict.code == 7 and "--signer PUBLIC.pem" in strict.err


def test_a_key_that_the_reader_did_not_name_vouches_for_nothing(
    released: Path, command: Any, tmp_path: Path
) -> None:
    done = command("receipt", "check", released)
    assert done.code == 0 and "signed by an unknown key" in done.out.splitlines()[0]
    assert "anyone can make a key" in done.out and "The receipt states" in done.out
    assert command("receipt", "check", released, "--require-signature").code == 7
    assert command("receipt", "keygen", tmp_path / "other.pem").code == 0
    other = ("--signer", tmp_path / "other.pub.pem")
    assert command("receipt", "check", released, *other).code == 7
    folder = command("receipt", "check", tmp_path, released, *other, "--json")
    assert folder.code == 4, "what is wrong with a file comes before who has signed it"


@pytest.mark.parametrize("changes", [{}, {"key_sha256": "the ward's"}])
def test_a_signature_that_holds_no_key_says_nothing_but_a_fingerprint(
    changes: dict[str, Any], released: Path, command: Any
) -> None:
    place = signature_path(receipt_path(released))
    said = json.loads(place.read_text())
    del said["public_key"]
    place.write_text(json.dumps(said | changes))
    done = command("receipt", "check", released)
    if "key_sha256" in changes:
        assert done.code == 4 and "cannot be read" in done.err
    else:
        assert done.code == 0 and "signature is not verified" in done.out.splitlines()[0]
    assert command("receipt", "check", released, "--require-signature").code in (4, 7)


def test_a_signature_that_says_something_twice_is_refused(released: Path, command: Any) -> None:
    place = signature_path(receipt_path(released))
    place.write_text(place.read_text().replace('"format": 1', '"format": 1, "format": 1'))
    done = command("receipt", "check", released)
    assert done.code == 4 and "cannot be read" in done.err


def test_one_of_several_keys_that_the_reader_named_vouches(
    released: Path, command: Any, tmp_path: Path, signing_folder: Path
) -> None:
    assert command("receipt", "keygen", tmp_path / "other.pem").code == 0
    both = (
        "--signer",
        tmp_path / "other.pub.pem",
        "--signer",
        signing_folder / "signing-key.pub.pem",
    )
    done = command("receipt", "check", *both, "--require-signature", released)
    assert done.code == 0 and "which was named as trusted" in done.out.splitlines()[0]
    assert "The receipt states" not in done.out


def test_what_is_verified_is_what_is_read(
    released: Path, monkeypatch: pytest.MonkeyPatch, signing_folder: Path
) -> None:
    """Whoever changes the receipt between the two would have a signature on another one."""
    plain, place = signatures.check_signature, receipt_path(released)

    def late(path: Path, data: bytes, **others: Any) -> Any:
        found = plain(path, data, **others)
        place.write_text(place.read_text().replace('"date": "20', '"date": "19'))
        return found

    monkeypatch.setattr(signatures, "check_signature", late)
    found = read_checked(released, signers=[signing_folder / "signing-key.pub.pem"])
    assert found.signer_sha256 is not None and found.receipt.date.startswith("20")


def forged(raw: Path, output: Path) -> Path:
    """The private film itself, with the receipt of its release."""
    target = raw.with_name("forged.mp4")
    shutil.copy(raw, target)
    said = json.loads(receipt_path(output).read_text())
    said["output_sha256"] = signatures.hashlib.sha256(target.read_bytes()).hexdigest()
    receipt_path(target).write_text(Receipt.from_json(json.dumps(said)).to_json())
    return target


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stretch of a real film in which somebody walks."""
    path = tmp_path_factory.mktemp("private") / "walk.mp4"
    with path.open("wb") as stream:
        frames = real_films.walker()[:4, 300:780:3, 700:1340:3]
        write.write_video(
            stream, list(np.ascontiguousarray(frames)), suffix=".mp4", rate=Fraction(24)
        )
    return path


@pytest.mark.parametrize("mechanism", MARKED, ids=lambda each: f"{each.name}-{each.unit}")
def test_a_film_that_is_no_output_is_flagged_and_an_output_is_not(
    mechanism: Mechanism, film: Path, tmp_path: Path, command: Any
) -> None:
    output = release_file(
        film, tmp_path / "out.mp4", mechanism, options=FileSettings(accept_grey=True)
    ).value
    done = command("receipt", "check", output, "--json")
    assert done.code == 0 and done.json["looks_like"] is True
    lie = forged(shutil.copy(film, tmp_path / "in.mp4"), output)
    done = command("receipt", "check", lie, "--json")
    assert done.code == 0 and done.json["looks_like"] is False
    assert "does not look like an output of" in command("receipt", "check", lie).out
    assert command("report", lie, "--out", tmp_path / "page.html").code == 0
    text = (tmp_path / "page.html").read_text()
    assert "DOUBTFUL: It does not look like" in text and 'stamp public"' not in text
