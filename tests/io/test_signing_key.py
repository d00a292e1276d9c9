"""The key that signs releases: made once, its owner's alone, and never in the way of a release."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from masquerade import check_receipt, make_mechanism, release_file
from masquerade.errors import BadInput
from masquerade.io import signatures
from masquerade.publish.receipts import read_checked

WORDS = "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low 0 --high 10".split()
MECHANISM = make_mechanism(
    "gaussian_noise", epsilon=2, delta=1e-5, unit="frame", low=0.0, high=10.0
)
FIND = """
import sys, time
from pathlib import Path
from masquerade.io import signatures as signing_key
place, count = Path(sys.argv[1]), int(sys.argv[2])
(place / f"ready-{sys.argv[3]}").touch()
while len(list(place.glob("ready-*"))) < count: time.sleep(0.001)
print(signing_key.find_signing().key_sha256)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody who never released anything."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(4, 3) % 10)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_release_makes_the_key_and_says_so_once(home: Path, command: Any) -> None:
    words = ("release", home / "in.npy", home / "out.npy", *WORDS)
    first = command(*words)
    folder = home / ".config" / "masquerade"
    assert mode(folder) == 0o700 and mode(folder / "signing-key.pem") == 0o600
    key = signatures.fingerprint_key(signatures.read_public_key(folder / "signing-key.pub.pem"))
    (folder / "signing-key.pub.pem").unlink()  # as after a crash
    assert key in first.out and str(folder / "signing-key.pub.pem") in first.out
    again = command(*words, "--overwrite", "--json")
    assert again.json["signed_by"] == key and again.json["signing_notes"] == []
    assert check_receipt(home / "out.npy", signer=folder / "signing-key.pub.pem")


def test_processes_that_make_the_first_key_at_once_end_with_one(home: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", FIND, str(home), "4", str(each)], stdout=subprocess.PIPE
        )
        for each in range(4)
    ]
    found = {racer.communicate(timeout=60)[0].strip() for racer in racers}
    assert len(found) == 1 and len(found.pop()) == 64
    names = {path.name for path in (home / ".config" / "masquerade").iterdir()}
    assert names == {"signing-key.pem", "signing-key.pub.pem"}


def homeless(home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.delenv("HOME")


def in_a_file(home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("XDG_CONFIG_HOME", str(home / "in.npy"))


def read_only(home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("XDG_CONFIG_HOME", "/proc")


def on_a_full_disk(home: Path, patch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(signatures, "make_keys", full)


def switched_off(home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MASQUERADE_SIGNING_KEY", "")


@pytest.mark.parametrize("without", [homeless, in_a_file, read_only, on_a_full_disk, switched_off])
def test_a_release_without_a_key_happens_and_says_aloud_that_it_is_not_signed(
    without: Callable[[Path, pytest.MonkeyPatch], None],
    home: Path,
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(home, monkeypatch)
    words = ("release", home / "in.npy", home / "out.npy", *WORDS)
    done, again = command(*words), command(*words, "--overwrite", "--json")
    assert done.code == 0 and "NOT SIGNED" in done.out and "receipt sign" in done.out
    assert again.json["signed_by"] is None and "NOT SIGNED" in again.json["signing_notes"][0]
    assert read_checked(home / "out.npy").signature is None


def open_key(key: Path) -> None:
    key.chmod(0o640)


def linked_key(key: Path) -> None:
    key.symlink_to(key.rename(key.with_name("elsewhere.pem")))


def damaged_key(key: Path) -> None:
    key.write_text("-----BEGIN PRIVATE KEY-----\n")


def empty_key(key: Path) -> None:
    key.write_text("")


def folder_for_a_key(key: Path) -> None:
    key.unlink()
    key.mkdir()


def public_key_in_its_place(key: Path) -> None:
    key.write_bytes(signatures.public_key_path(key).read_bytes())
    key.chmod(0o644)


def public_half_of_another(key: Path) -> None:
    signatures.write_public(Ed25519PrivateKey.generate(), signatures.public_key_path(key))


def damaged_public_half(key: Path) -> None:
    signatures.public_key_path(key).write_text("-----BEGIN PUBLIC KEY-----\n")


def damaged_public_half_alone(key: Path) -> None:
    damaged_public_half(key)
    key.unlink()


def open_folder(key: Path) -> None:
    key.parent.chmod(0o770)


def linked_folder(key: Path) -> None:
    key.parent.symlink_to(key.parent.rename(key.parent.with_name("elsewhere")))


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (open_key, "chmod 600"),
        (linked_key, "Name the file itself"),
        (damaged_key, "receipt keygen"),
        (empty_key, "receipt keygen"),
        (folder_for_a_key, "receipt keygen"),
        (public_key_in_its_place, "name the private half"),
        (public_half_of_another, "writes it anew"),
        (damaged_public_half, "writes it anew"),
        (damaged_public_half_alone, "move it away"),
        (open_folder, "chmod 700"),
        (linked_folder, "MASQUERADE_SIGNING_KEY"),
    ],
)
def test_a_key_that_others_may_have_touched_is_refused_before_anything_is_written(
    spoil: Callable[[Path], None], remedy: str, home: Path, command: Any
) -> None:
    signatures.find_signing()
    spoil(home / ".config" / "masquerade" / "signing-key.pem")
    done = command("release", home / "in.npy", home / "out.npy", *WORDS)
    assert done.code == 4 and remedy in done.err, done.err
    assert not list(home.glob("out*"))


def test_keygen_refuses_a_place_that_releases_would_refuse(
    home: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("receipt", "keygen", "--rotate")
    assert done.code == 4 and "without --rotate" in done.err
    folder = home / ".config" / "masquerade"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    done = command("receipt", "keygen")
    assert done.code == 4 and "chmod 700" in done.err and not list(folder.iterdir())
    monkeypatch.setenv("HOME", "/proc/nothing")
    done = command("receipt", "keygen")
    assert done.code == 4 and "receipt keygen KEY.pem" in done.err


def test_a_key_that_is_named_signs_and_one_that_is_not_there_is_refused(
    home: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("receipt", "keygen", home / "ward.pem").code == 0
    monkeypatch.setenv("MASQUERADE_SIGNING_KEY", str(home / "ward.pem"))
    release_file(home / "in.npy", home / "out.npy", MECHANISM)
    assert check_receipt(home / "out.npy", signer=home / "ward.pub.pem")
    monkeypatch.setenv("MASQUERADE_SIGNING_KEY", str(home / "nothing.pem"))
    with pytest.raises(BadInput, match="there is none"):
        release_file(home / "in.npy", home / "other.npy", MECHANISM)
    assert not (home / ".config").exists() and not (home / "other.npy").exists()


def test_a_rotated_key_keeps_what_was_signed_before(home: Path, command: Any) -> None:
    release_file(home / "in.npy", home / "old.npy", MECHANISM)
    done = command("receipt", "keygen", "--rotate", "--json")
    assert done.code == 0, done.err
    before, after = done.json["before"], done.json["public"]
    release_file(home / "in.npy", home / "new.npy", MECHANISM)
    assert check_receipt(home / "old.npy", signer=before)
    assert check_receipt(home / "new.npy", signer=after)
    both = ("--signer", before, "--signer", after)
    assert command("receipt", "check", home / "old.npy", home / "new.npy", *both).code == 0
    assert mode(Path(before.replace(".pub.pem", ".pem"))) == 0o600
    assert "--signer" in command("receipt", "keygen", "--rotate").out, "what readers must do"


def test_workers_sign_and_rehearsals_are_not_signed(home: Path, command: Any) -> None:
    (home / "in").mkdir()
    for name in "abc":
        np.save(home / "in" / f"{name}.npy", np.ones((4, 3)))
    words = ("release", home / "in", home / "out", *WORDS)
    done = command(*words, "--jobs", "2")
    assert done.code == 0 and done.out.count("Made the key") == 1, done.err
    public = home / ".config" / "masquerade" / "signing-key.pub.pem"
    outputs = list((home / "out").glob("*.npy"))
    assert len(outputs) == 3 and all(check_receipt(each, signer=public) for each in outputs)
    again = command(*words, "--resume", "--json").json["files"]
    assert {each["signed_by"] for each in again} == {signatures.find_signing().key_sha256}
    seeded = command("release", home / "in.npy", home / "try.npy", *WORDS, "--rehearsal-seed", "1")
    assert seeded.code == 0 and not list(home.glob("try*.sig"))
