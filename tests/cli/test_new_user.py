"""What someone meets who uses this for the first time."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import video_files
from masquerade._optional import require_extra
from masquerade.errors import MissingExtra
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.wording import explain


def test_a_folder_is_not_released_to_the_name_of_a_file(tmp_path: Path, command: Any) -> None:
    (tmp_path / "fold").mkdir()
    (tmp_path / "fold" / "a.csv").write_text("1\n2\n")
    how = "--mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 1"
    done = command("release", str(tmp_path / "fold"), str(tmp_path / "out.mp4"), *how.split())
    assert done.code == 2 and "say out instead" in done.err
    assert not (tmp_path / "out.mp4").exists()


def test_several_files_and_folders_are_released_to_one_folder(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more").mkdir()
    for name in ("a.csv", "b.csv", "more/c.csv", "left.csv"):
        Path(name).write_text("1\n2\n")
    how = "--mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 1"
    done = command("release", "a.csv", *how.split(), "b.csv", "more", "out", "--jobs", "1")
    assert done.code == 0, done.err
    assert "Wrote 3 files" in done.out and "Differentially private with epsilon 8" in done.out
    assert len(list(Path("out").glob("*.csv"))) == 3
    assert not {"a.csv", "b.csv"} & {path.name for path in Path("out").rglob("*")}
    (names,) = Path().glob("*.names.private.json")
    assert {"a.csv", "b.csv", "more/c.csv"} == set(json.loads(names.read_text()))
    assert command("receipt", "check", "out").code == 0
    again = command("release", "a.csv", "b.csv", "more", "out", *how.split(), "--resume")
    assert again.code == 0 and "3 stood there already" in again.out


@pytest.mark.parametrize(
    "words",
    [
        ("release", ".", "s3://bucket/out", "--mechanism", "blur"),
        ("release", "gs://bucket/in", "out", "--mechanism", "blur"),
        ("release", ".", "out", "--mechanism", "face_blur", "--export=file:///faces.json"),
        ("receipt", "check", "https://host/out.mp4"),
        ("ledger", "show", "--ledger", "s3://bucket/budget.db"),
    ],
)
def test_an_address_is_never_taken_for_a_path(
    words: tuple[str, ...], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").touch()
    done = command(*words)
    assert done.code == 2 and "Expected a path on this machine" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_folders_are_probed_signed_and_added_as_files_are(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films").mkdir()
    for name in "ab":
        kind = video_files.KINDS["ffv1.mkv"]
        video_files.make(Path("films") / f"{name}.mkv", video_files.moving(2, 16, 16), kind)
    probed = command("data", "probe", "films")
    assert probed.code == 0 and probed.out.count("2 frames of 16 x 16") == 2
    assert command("release", "films", "out", "--mechanism", "mosaic", "--jobs", "1").code == 0
    assert command("receipt", "keygen", "key.pem").code == 0
    signed = command("receipt", "sign", "out", "--key", "key.pem")
    assert signed.code == 0 and signed.out.count("signed by the key") == 2
    book = ("--ledger", "b.db")
    opened = command("ledger", "open", "x", *book, *"--epsilon 8 --delta 1e-5 --unit frame".split())
    assert opened.code == 0, opened.err
    Path("numbers").mkdir()
    for name in "ab":
        Path(f"numbers/{name}.csv").write_text(f"1\n{ord(name)}\n")
    added = command("ledger", "add", "x", "numbers", *book)
    assert added.code == 0 and "2 files" in added.out


def test_several_files_are_not_released_among_themselves(tmp_path: Path, command: Any) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("1\n2\n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    how = "--mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 1"
    done = command("release", *files, tmp_path, *how.split())
    assert done.code == 2 and "outside of what is published" in done.err
    named = command("release", *files, tmp_path / "out.csv", *how.split())
    assert named.code == 2 and "outputs of 2 files" in named.err
    (tmp_path / "notes.txt").write_text("x")
    other = command("release", *files, tmp_path / "notes.txt", tmp_path / "out", *how.split())
    assert other.code == 4 and "notes.txt" in other.err and not (tmp_path / "out").exists()


def test_the_line_that_installs_an_extra_is_for_this_interpreter() -> None:
    with pytest.raises(MissingExtra) as caught:
        require_extra("no_such_module", extra="train")
    assert f"{shlex.quote(sys.executable)} -m pip install 'masquerade[train]'" in str(caught.value)


def test_technical_words_stand_behind_explain_alone() -> None:
    made = GaussianNoise(epsilon=8.0, delta=1e-5, unit="frame", low=30.0, high=220.0)
    guarantee = made.guarantee((60, 1))
    plain = " ".join(explain(guarantee))
    for word in ("ChaCha20", "axis", "exactly sampled", "computational"):
        assert word not in plain
    assert "outside of 30 to 220" in plain
    assert guarantee.numerics in " ".join(explain(guarantee, is_technical=True))


def test_the_noise_of_a_rehearsal_is_never_called_secret() -> None:
    made = GaussianNoise(epsilon=8.0, delta=1e-5, unit="frame", low=30.0, high=220.0)
    promised = made.guarantee((4,))
    assert "secrets of this machine" in " ".join(explain(promised))
    assert "secrets of this machine" not in " ".join(explain(promised.as_rehearsal()))
