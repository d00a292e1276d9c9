"""Where outputs go: opaque names, apart from what is private, one writer at a time."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
from masquerade.io import opaque_names
from masquerade.ledger import Ledger
from masquerade.mechanism import Heuristic, Shape
from masquerade.noise import Noise
from masquerade.publish import sources
from masquerade.publish.folder import FolderSettings

WORDS = "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low 0 --high 10".split()
NAMES = ("anna.npy", "ben.npy", "ward 3/mueller.npy")
ONE = ["--jobs", "1"]


def make(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.random.default_rng(seed).uniform(0, 10, (4, 3)))
    return path


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder ``in`` of three arrays, one of them deeper."""
    for seed, name in enumerate(NAMES):
        make(tmp_path / "in" / name, seed)
    return tmp_path


def tree(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def release(command: Any, house: Path, *words: object) -> Any:
    return command("release", house / "in", house / "out", *WORDS, *ONE, *words)


def opened(command: Any, house: Path, *files: Path) -> Path:
    ledger = house / "budget.db"
    words = ["--ledger", ledger, "--epsilon", 20, "--delta", "1e-5", "--unit", "frame"]
    assert command("ledger", "open", "ward", *words).code == 0
    assert command("ledger", "add", "ward", *files, "--ledger", ledger).code == 0
    return ledger


def list_of_names(house: Path) -> Path:
    return opaque_names.list_path(house / "in", house / "out")


def test_a_folder_is_published_under_opaque_names(house: Path, command: Any) -> None:
    done = release(command, house)
    book = list_of_names(house)
    assert done.code == 0 and f"Names are opaque; which is which stands in {book}" in done.out
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    listed = json.loads(book.read_text())
    assert set(listed) == set(NAMES)
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in listed.values())
    files = {f"{name}.npy" for name in listed.values()}
    ends = ("", ".receipt.json", ".receipt.json.sig")
    assert tree(house / "out") == {name + end for name in files for end in ends}


def test_a_second_run_finds_its_opaque_names_again(house: Path, command: Any) -> None:
    assert release(command, house).code == 0
    before = {name: (house / "out" / name).read_bytes() for name in tree(house / "out")}
    make(house / "in" / "carl.npy", 4)
    again = release(command, house, "--resume")
    assert again.code == 0 and "3 stood there already" in again.out
    assert len(tree(house / "out")) == 12
    assert all((house / "out" / name).read_bytes() == data for name, data in before.items())


def test_going_on_without_the_list_of_names_is_refused(house: Path, command: Any) -> None:
    assert release(command, house).code == 0
    before = tree(house / "out")
    list_of_names(house).rename(house / "moved.json")
    for words in ([], ["--resume"], ["--overwrite"]):
        done = release(command, house, *words)
        assert done.code == 4 and "Put it back, or say where it is with --names" in done.err
    again = release(command, house, "--resume", "--names", house / "moved.json")
    assert again.code == 0 and "3 stood there already" in again.out
    assert tree(house / "out") == before


def test_names_are_kept_only_when_that_is_said(house: Path, command: Any) -> None:
    done = release(command, house, "--keep-names")
    assert "Names are published as they are and may identify people." in done.out
    assert set(NAMES) < tree(house / "out") and not list(house.glob("*.private.json"))


def test_the_list_of_names_may_stand_elsewhere_but_not_with_the_outputs(
    house: Path, command: Any
) -> None:
    refused = release(command, house, "--names", house / "out" / "names.json")
    assert refused.code == 2 and "which is published" in refused.err
    (house / "safe").mkdir()
    assert release(command, house, "--names", house / "safe" / "names.json").code == 0
    assert set(json.loads((house / "safe" / "names.json").read_text())) == set(NAMES)


def test_two_targets_of_one_folder_share_no_names(house: Path, command: Any) -> None:
    (house / "two").mkdir()
    for out in ("one", "two/one"):
        assert command("release", house / "in", house / out, *WORDS, *ONE).code == 0
    assert not tree(house / "one") & tree(house / "two" / "one")


def test_kept_names_are_not_released_again_under_opaque_ones(house: Path, command: Any) -> None:
    assert release(command, house, "--keep-names").code == 0
    before = tree(house / "out")
    for words in ([], ["--resume"]):
        done = release(command, house, *words)
        assert done.code == 4 and "say --keep-names" in done.err
    assert tree(house / "out") == before


@pytest.mark.parametrize("receipt", [None, "not a receipt"])
def test_a_file_that_is_no_output_is_never_replaced(
    receipt: str | None, house: Path, command: Any
) -> None:
    private = make(house / "other" / "bob.npy", 5)
    held = private.read_bytes()
    if receipt is not None:
        private.with_name("bob.npy.receipt.json").write_text(receipt)
    done = command("release", house / "in" / NAMES[0], private, *WORDS, "--overwrite")
    assert done.code == 2 and "no output of ours" in done.err
    assert private.read_bytes() == held


def test_ledger_numbers_do_not_follow_the_order_of_private_names(
    tmp_path: Path, command: Any
) -> None:
    files = [make(tmp_path / "in" / f"{place:02}.npy", place) for place in range(8)]
    ledger = opened(command, tmp_path, *files)
    assert release(command, tmp_path, "--ledger", ledger).code == 0
    listed = json.loads(list_of_names(tmp_path).read_text())
    receipts = [mq.check_receipt(tmp_path / "out" / f"{listed[path.name]}.npy") for path in files]
    numbers = [receipt.ledger_sequence or 0 for receipt in receipts]
    assert numbers != sorted(numbers), "by chance once in 40320"


@pytest.mark.parametrize("words", [[], ["--keep-names"]])
def test_an_output_folder_around_the_private_one_is_refused(
    words: list[str], house: Path, command: Any
) -> None:
    make(house / "in" / "in" / "anna.npy", 9)  # its output would be the private in/anna.npy
    before = (house / "in" / "anna.npy").read_bytes()
    done = command("release", house / "in", house, *WORDS, *ONE, "--overwrite", *words)
    assert done.code == 2 and "outside of what is published" in done.err
    assert (house / "in" / "anna.npy").read_bytes() == before


@pytest.mark.parametrize("way", ["folder link", "hard link", "link", "receipt"])
def test_an_output_that_is_a_private_file_by_a_link_is_refused(
    way: str, house: Path, command: Any
) -> None:
    (house / "out").mkdir()
    source = house / "in" / "anna.npy"
    if way == "folder link":
        (house / "out" / "ward 3").symlink_to(house / "in" / "ward 3")
    elif way == "link":
        (house / "out" / "ben.npy").symlink_to(source)
    else:
        end = ".receipt.json" if way == "receipt" else ""
        os.link(source, house / "out" / f"ben.npy{end}")
    before = {name: (house / "in" / name).read_bytes() for name in tree(house / "in")}
    for words in (["--dry-run"], []):
        done = release(command, house, "--keep-names", "--overwrite", *words)
        assert done.code == 2 and ("outside of" in done.err or "apart from" in done.err)
    assert {name: (house / "in" / name).read_bytes() for name in tree(house / "in")} == before


@pytest.mark.parametrize("name", ["out.npy", "out.npy.receipt.json"])
def test_one_output_or_its_receipt_that_is_the_input_is_refused(
    name: str, house: Path, command: Any
) -> None:
    source = house / "in" / "anna.npy"
    os.link(source, house / name)
    done = command("release", source, house / "out.npy", *WORDS, "--overwrite")
    assert done.code == 2 and "than the input" in done.err
    assert (house / name).samefile(source)


def test_a_link_to_nowhere_is_refused_before_anything_is_spent(house: Path, command: Any) -> None:
    ledger = opened(command, house, house / "in" / "anna.npy")
    (house / "out.npy").symlink_to(house / "nowhere")
    words = [*WORDS, "--ledger", ledger]
    done = command("release", house / "in" / "anna.npy", house / "out.npy", *words)
    assert done.code == 2 and "link to nowhere" in done.err
    assert [entry.kind for entry in Ledger(ledger).read_entries()] == ["open", "add"]


def test_a_folder_that_cannot_be_read_is_a_failure(
    house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def closed(path: Any) -> Any:
        if str(path).endswith("ward 3"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)  # a superuser may read everything
    (house / "in" / "linked").symlink_to(house / "safe")
    (house / "safe").mkdir()
    done = release(command, house)
    assert done.code == 4 and "Wrote 2 files" in done.out
    assert f"FAILED {house / 'in' / 'ward 3'}: Expected a folder that can be read" in done.out
    assert f"FAILED {house / 'in' / 'linked'}: Expected a folder, got a link" in done.out
    assert release(command, house, "--dry-run").code == 4


@dataclass(frozen=True, kw_only=True)
class Hungry(Heuristic):
    """Is killed for memory where the recording is of zeros."""

    @property
    def hides(self) -> str:
        return "nothing"

    def stream(
        self, frames: Iterator[np.ndarray], shape: Shape, noise: Noise
    ) -> Iterator[np.ndarray]:
        for frame in frames:
            if not np.any(frame):
                os.kill(os.getpid(), signal.SIGKILL)
            yield frame


def test_a_killed_worker_takes_no_other_file_along(house: Path) -> None:
    for name in (*NAMES, "big.npy"):
        np.save(house / "in" / name, np.full((1, 4, 6, 3), name != "big.npy", np.uint8))
    work = FolderSettings(jobs=2, keep_names=True)
    done = mq.release_folder(house / "in", house / "out", Hungry(), work=work)
    said = {outcome.source.name: outcome for outcome in done}
    assert {name for name, outcome in said.items() if outcome.error} == {"big.npy"}
    assert "killed, perhaps for memory" in str(said["big.npy"].error)
    assert said["big.npy"].exit_code == 4
    assert set(NAMES) < tree(house / "out") and not list((house / "out").glob(".*"))


def test_a_dry_run_adds_up_what_the_files_of_one_person_cost(tmp_path: Path, command: Any) -> None:
    files = [make(tmp_path / "in" / f"{place}.npy", place) for place in range(4)]
    ledger = tmp_path / "budget.db"
    words = ["--epsilon", "1.5", "--delta", "1e-5", "--unit", "subject", "--ledger", ledger]
    assert command("ledger", "open", "ward", *words).code == 0
    assert (
        command("ledger", "add", "ward", *files, "--subject", "anna", "--ledger", ledger).code == 0
    )
    subject = "--mechanism gaussian_noise --epsilon 1 --delta 1e-5 --unit subject --low 0 --high 1"
    words = ["release", tmp_path / "in", tmp_path / "out", *subject.split(), *ONE]
    words += ["--ledger", ledger, "--yes"]
    quoted = command(*words, "--dry-run", "--json")
    entries = Ledger(ledger).read_entries()
    assert [entry.kind for entry in entries] == ["open", *["add"] * 4], "nothing was spent"
    done = command(*words, "--json")
    assert quoted.code == done.code == 3
    assert quoted.json["failed"] == done.json["failed"] == 2


def test_a_dry_run_refuses_an_output_that_stands_as_the_run_does(house: Path, command: Any) -> None:
    line = ["release", house / "in" / "anna.npy", house / "out.npy", *WORDS]
    assert command(*line).code == 0 and release(command, house, "--keep-names").code == 0
    make(house / "in" / "carl.npy", 4)
    for more in ([], ["--resume"], ["--overwrite"], ["--resume", "--exact"]):
        dry, done = command(*line, *more, "--dry-run"), command(*line, *more)
        assert dry.code == done.code and dry.err == done.err
        dry = release(command, house, *more, "--keep-names", "--dry-run", "--json")
        done = release(command, house, *more, "--keep-names", "--json")
        assert (dry.code, dry.json["failed"]) == (done.code, done.json["failed"])
        (house / "out" / "carl.npy").unlink()


def test_a_dry_run_lets_an_output_stand_that_its_ledger_knows(house: Path, command: Any) -> None:
    words = ["--ledger", opened(command, house, *(house / "in" / name for name in NAMES))]
    line = ["release", house / "in" / "anna.npy", house / "out.npy", *WORDS, *words]
    first = release(command, house, *words, "--dry-run")
    assert first.code == 0 and "The ledger can afford it." in first.out
    assert command(*line).code == 0 and release(command, house, *words).code == 0
    again = release(command, house, *words, "--dry-run")
    assert again.code == 0 and "can afford" not in again.out, "it was asked for nothing"
    again = command(*line, "--dry-run")
    assert again.code == 0 and "nothing would be spent" in again.out
    assert command(*line[:1], house / "in" / "ben.npy", *line[2:], "--dry-run").code == 2


def test_a_dry_run_refuses_a_list_of_names_that_would_be_published(
    house: Path, command: Any
) -> None:
    refused = release(command, house, "--names", house / "out" / "names.json", "--dry-run")
    assert refused.code == 2 and "which is published" in refused.err
    assert release(command, house).code == 0
    list_of_names(house).unlink()
    assert release(command, house, "--resume", "--dry-run").code == 4


def test_a_file_that_fails_in_a_dry_run_is_listed_once(
    house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(command, house, *(house / "in" / name for name in NAMES))

    def gone(*_: object) -> Any:
        raise OSError("It is gone.")

    monkeypatch.setattr(sources.ArrayRecording, "content", property(gone))
    done = release(command, house, "--ledger", ledger, "--dry-run", "--json")
    assert done.code == 4 and done.json["failed"] == len(done.json["files"]) == 3


def test_what_is_left_alone_is_counted_and_walked_over_once(
    house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(house / "in" / "pipe.npy")
    for hidden in (".cache/old.npy", ".anna.npy"):
        make(house / "in" / hidden)
    (house / "in" / ".settings").touch()
    plain, walked = os.walk, []

    def walk(top: Any, **options: Any) -> Any:
        walked.append(Path(top).name)
        return plain(top, **options)

    monkeypatch.setattr(os, "walk", walk)
    done = release(command, house, "--json")
    assert done.code == 0 and walked.count("in") == 1
    assert (done.json["left_alone"], done.json["hidden"]) == (1, 2)
    said = release(command, house, "--dry-run", "--overwrite").out
    assert "Left alone: 1 file of no kind that is read." in said
    assert "Left alone: 2 files hidden, or in a hidden folder." in said


def test_one_is_not_written_as_many(tmp_path: Path, command: Any) -> None:
    source = make(tmp_path / "in" / "anna.npy")
    ledger = opened(command, tmp_path, source)
    assert ", 1 holder." in command("ledger", "show", "--ledger", ledger).out
    assert "1 file; nothing" in release(command, tmp_path, "--dry-run").out
    assert "Wrote 1 file to" in release(command, tmp_path).out


@pytest.mark.parametrize("length", [240, 300])
def test_a_name_that_is_too_long_gets_a_message(length: int, house: Path, command: Any) -> None:
    name = "x" * length + ".npy"
    done = command("release", house / "in" / "anna.npy", house / name, *WORDS)
    assert done.code == 4 and "choose a shorter one" in done.err and "Errno" not in done.err
    if length < 255:
        make(house / "in" / name)
        done = release(command, house, "--keep-names")
        assert done.code == 4 and "choose a shorter one" in done.out and "Wrote 3" in done.out
