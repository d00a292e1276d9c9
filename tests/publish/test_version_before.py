"""What the version before left on disk is read, recognised and taken up by this one."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
from masquerade.publish.learned import training_list_path

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
WORDS = runpy.run_path(str(BEFORE / "make.py"))  # the command lines by which it was made
GAUSSIAN, FILM, SGD, VOTES = (WORDS[name].split() for name in ("GAUSSIAN", "FILM", "SGD", "VOTES"))
BOOK = ("--ledger", "budget.db")
VOTED = ("--method", "pate", "--windows", "10")
TESTED = ("--data", "watch", "--root", "private/watch.npy", "--subjects", "2")
OUTPUTS = sorted(
    str(path.relative_to(BEFORE)).removesuffix(".receipt.json")
    for path in BEFORE.glob("public/**/*.receipt.json")
)
MODELS = [name for name in OUTPUTS if name.endswith(".safetensors")]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in."""
    folder = tmp_path / "before"
    shutil.copytree(BEFORE, folder)
    monkeypatch.chdir(folder)
    return folder


def entries(command: Any, kind: str) -> list[Any]:
    """The payloads of one kind."""
    done = command("ledger", "history", *BOOK, "--json")
    assert done.code == 0, done.err
    return [entry["payload"] for entry in done.json["entries"] if entry["kind"] == kind]


def unsettled(command: Any) -> list[Any]:
    """What each reservation without an output is for."""
    done = command("ledger", "history", *BOOK, "--json").json["entries"]
    ended = {entry["payload"]["reservation"] for entry in done if entry["kind"] == "settle"}
    kept = [entry for entry in done if entry["kind"] == "reserve"]
    return [each["payload"]["mechanism"] for each in kept if each["sequence"] not in ended]


def test_the_files_are_of_the_version_before_and_small() -> None:
    receipts = [json.loads((BEFORE / f"{name}.receipt.json").read_text()) for name in OUTPUTS]
    assert {each["code_version"] for each in receipts} == {"0.2.0"} and len(receipts) == 10
    assert sum(path.stat().st_size for path in BEFORE.rglob("*")) < 400_000


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in MODELS])
def test_an_output_of_the_version_before_is_checked(name: str, house: Path, command: Any) -> None:
    done = command("receipt", "check", name, "--json")
    assert done.code == 0, done.err
    told = json.loads(Path(f"{name}.receipt.json").read_text())
    assert done.json["receipt"]["guarantee"]["epsilon"] == told["guarantee"]["epsilon"]
    assert mq.check_receipt(name).output_sha256 == told["output_sha256"]
    assert "Masquerade 0.2.0)" in command("receipt", "check", name).out


def test_a_signature_of_the_version_before_is_verified(house: Path, command: Any) -> None:
    words = ("receipt", "check", "public/alone.npy", "--signer", "ward.pub.pem")
    done = command(*words)
    assert done.code == 0 and "which was named as trusted" in done.out, done.err
    assert "is not verified" in command(*words[:3]).out, "it does not hold its key"
    beside = house / "public" / "alone.npy.receipt.json"
    beside.write_text(beside.read_text().replace("2024", "2023"))
    assert command(*words).code == 4


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_version_before_is_checked_and_tested(
    name: str, house: Path, command: Any
) -> None:
    pytest.importorskip("torch")
    done = command("receipt", "check", name)
    assert done.code == 0 and "everything that one person contributed" in done.out, done.err
    found = command("evaluate", name, *TESTED, "--json")
    assert found.code == 0, found.err
    assert found.json["recordings"] == len(found.json["per_class"]) == 7
    assert found.json["held_out"] == "named"


def test_all_outputs_of_the_version_before_are_reported(house: Path, command: Any) -> None:
    pytest.importorskip("torch")
    done = command("report", *OUTPUTS, "--out", "report.html")
    assert done.code == 0, done.err
    page = (house / "report.html").read_text()
    assert all(Path(name).name in page for name in OUTPUTS)


def test_a_folder_of_the_version_before_keeps_its_outputs_and_their_names(
    house: Path, command: Any
) -> None:
    names = json.loads((house / "names.private.json").read_text())
    words = ("release", "private/ward", "public/ward", *GAUSSIAN, "--jobs", "1")
    words += ("--names", "names.private.json", "--resume", "--json")
    done = command(*words)
    assert done.code == 0 and done.json["already_done"] == 2, done.err
    for path in (house / "public" / "ward").glob(f"{names['ben.npy']}*"):
        path.unlink()
    done = command(*words)
    assert done.code == 0 and done.json["already_done"] == 1, done.err
    stems = {path.name.split(".")[0] for path in (house / "public" / "ward").iterdir()}
    assert stems == set(names.values())


def test_a_ledger_of_the_version_before_opens_shows_and_verifies(house: Path, command: Any) -> None:
    done = command("ledger", "show", *BOOK, "--json")
    assert done.code == 0, done.err
    ward, people = done.json["accounts"]
    assert (ward["account"], ward["unit"], ward["holders"]) == ("ward", "frame", 4)
    assert (people["account"], people["unit"], people["holders"]) == ("people", "subject", 3)
    assert (ward["releases_of_the_busiest"], people["releases_of_the_busiest"]) == (1, 4)
    assert ward["left_share"] == pytest.approx(0.753835, abs=1e-5)
    assert people["left_share"] == pytest.approx(0.933588, abs=1e-5)
    assert ward["fixed_list_epsilon"] == 8 and ward["epsilon_that_fits"] == pytest.approx(16.514)
    done = command("ledger", "verify", "--receipts", "public", *BOOK, "--json")
    assert done.code == 0, done.err
    assert (done.json["receipts"], done.json["charged"], done.json["entries"]) == (10, 5, 39)
    assert unsettled(command) == ["gaussian_noise", "gaussian_noise", "dp_sgd", "pate"]


def test_a_ledger_of_the_version_before_that_was_changed_is_refused(
    house: Path, command: Any
) -> None:
    held = (house / "budget.db").read_bytes()
    assert held.count(b'"ward"') > 1
    (house / "budget.db").write_bytes(held.replace(b'"account": "ward"', b'"account": "werd"'))
    assert command("ledger", "show", *BOOK).code == 4


@pytest.mark.parametrize(
    ("source", "words"), [("monday.npy", GAUSSIAN), ("film.mp4", FILM), ("tuesday.npy", GAUSSIAN)]
)
def test_a_release_of_the_version_before_is_recognised_and_settled(
    source: str, words: list[str], house: Path, command: Any
) -> None:
    reserved, settled = entries(command, "reserve"), len(entries(command, "settle"))
    target = house / "public" / source
    held = target.read_bytes()
    for _ in range(2):
        done = command("release", f"private/{source}", f"public/{source}", *words, *BOOK)
        assert done.code == 0 and "nothing was spent" in done.out, done.err
        assert target.read_bytes() == held and entries(command, "reserve") == reserved
        was_cut = source == "tuesday.npy"
        assert len(entries(command, "settle")) == settled + was_cut


def test_a_release_that_was_cut_before_it_was_written_is_spent_and_made_again(
    house: Path, command: Any
) -> None:
    source, target = "private/wednesday.npy", house / "public" / "wednesday.npy"
    reserved = len(entries(command, "reserve"))
    done = command("release", source, "public/wednesday.npy", *GAUSSIAN, *BOOK)
    assert done.code == 0, done.err
    assert np.load(target).shape == (6, 3) and mq.check_receipt(target).code_version
    assert len(entries(command, "reserve")) == reserved + 1 and len(unsettled(command)) == 4


def test_a_budget_of_the_version_before_is_still_a_limit(house: Path, command: Any) -> None:
    words = [word if word != "2" else "25" for word in GAUSSIAN]
    done = command("release", "private/monday.npy", "public/more.npy", *words, *BOOK)
    assert done.code == 3 and not (house / "public" / "more.npy").exists()


@pytest.mark.parametrize(
    ("name", "words", "number", "was"),
    [
        ("stopped", (*SGD, "--checkpoint-every", "2"), "noise_multiplier", 3.485666),
        ("voted", (*VOTES, *VOTED), "scale", 8.916601),
    ],
)
def test_a_run_that_the_version_before_began_is_taken_up_and_charged_once(
    name: str, words: tuple[str, ...], number: str, was: float, house: Path, command: Any
) -> None:
    """A processor that calibrates to another last digit has another run, which is refused."""
    pytest.importorskip("torch")
    reserved, target = entries(command, "reserve"), house / f"{name}.safetensors"
    before = sorted(house.glob(f"{name}*"))
    done = command("train", target.name, *words, *BOOK, "--json")
    assert entries(command, "reserve") == reserved
    if done.code == 0:
        assert sorted(house.glob(f"{name}*")) == [
            target,
            training_list_path(target),
            *(house / f"{target.name}.receipt.json{end}" for end in ("", ".sig")),
        ]
        assert command("receipt", "check", target.name).code == 0
        assert len(unsettled(command)) == 3
        assert command("ledger", "verify", "--receipts", ".", *BOOK, "--json").json["charged"] == 6
        return
    assert done.code == 4 and "Expected" in done.err and sorted(house.glob(f"{name}*")) == before
    planned = command("train", "other.safetensors", *words, "--dry-run", "--json").json[number]
    assert planned != was, done.err


def test_a_checkpoint_of_the_version_before_is_not_taken_up_by_another_run(
    house: Path, command: Any
) -> None:
    pytest.importorskip("torch")
    reserved = entries(command, "reserve")
    other = [word if word != "4" else "5" for word in SGD]
    done = command("train", "stopped.safetensors", *other, "--checkpoint-every", "2", *BOOK)
    assert done.code == 4 and "private-run" in done.err, done.err
    assert entries(command, "reserve") == reserved
    assert not (house / "stopped.safetensors").exists()
