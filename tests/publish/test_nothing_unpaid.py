"""A ledger that refuses leaves the output's folder as it was, and nothing public is ever opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from few_films import Few
from few_signals import teaches
from masquerade import catalog
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import Unit, UnitName
from masquerade.io import atomic
from masquerade.ledger import Content, Ledger
from masquerade.mechanism import VideoMechanism
from masquerade.networks.network import MvitSmall
from masquerade.noise import Noise
from masquerade.publish.folder import FolderSettings, release_folder
from masquerade.publish.models import SHEET_SUFFIX, make_method, train_file
from masquerade.publish.recording import FileSettings, release_file
from masquerade.publish.spine import hold_place
from masquerade.receipt import sidecar_path

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PRIVATE = (".private-run", ".private-run-labels", ".part", ".lock")
_watched: list[tuple[Path, list[str]]] = []


def _note(event: str, found: tuple[Any, ...]) -> None:
    """Every file that Python opens for writing or names, in the folders that are watched."""
    if not _watched or event not in ("open", "os.rename", "os.link"):
        return
    name = found[0] if event == "open" else found[1]
    writes = event != "open" or bool(found[2] & _WRITES) or set(found[1] or "") & set("wax+")
    if isinstance(name, str | bytes | os.PathLike) and writes:
        path = Path(os.fsdecode(name))
        for folder, held in _watched:
            if folder in path.parents and not path.name.endswith(_PRIVATE):
                held.append(f"{event} {path.name}")


sys.addaudithook(_note)


def refused(
    folder: Path, work: Callable[[], Any], errors: Any = (BadInput, BudgetExceeded)
) -> None:
    """The work is refused, the folder is as it was, and nothing public was written in between."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    held: list[str] = []
    _watched.append((folder, held))
    try:
        with pytest.raises(errors):
            work()
    finally:
        _watched.clear()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert held == []


def book(path: Path, **other: Any) -> Ledger:
    ledger = Ledger(path / "budget.db")
    given: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-5, "rule": "renyi"} | other
    ledger.open_account("ward", Unit(name=UnitName.VIDEO), **given)
    return ledger


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.txt").write_text("stands")
    return tmp_path / "out"


def trained(name: str, target: Path, ledger: Ledger, **fields: Any) -> Any:
    few: dict[str, Any] = {"unit": "video", "batch": 4, "epochs": 1.0, "epsilon": 2.0}
    guided = {"public_records": 6, "directions": 4} if name == "feature_projective" else {}
    return train_file(
        Few(),
        target,
        make_method(name, **(few | guided | fields)),
        MvitSmall(from_scratch=True),
        public=Others() if guided else (),
        ledger=ledger,
    )


class Others(Few):
    def _load(self, index: int) -> Any:
        return super()._load(index + 100)


def enrolled(ledger: Ledger) -> Ledger:
    ledger.add_contents("ward", [(Content.from_value(video), None) for video in Few()])
    return ledger


@pytest.mark.parametrize(
    "name", ["dp_sgd", "multi_clip", "mask_dp", "feature_dp", "public_features"]
)
def test_a_run_over_recordings_that_are_in_no_account_writes_nothing(
    name: str, tmp_path: Path, out: Path
) -> None:
    ledger = book(tmp_path, public="features")
    refused(out, lambda: trained(name, out / "m.safetensors", ledger))


@pytest.mark.parametrize("name", ["feature_dp", "feature_projective"])
def test_no_public_picture_leaves_where_the_budget_is_too_small(
    name: str, tmp_path: Path, out: Path
) -> None:
    ledger = enrolled(book(tmp_path, public="features"))
    refused(out, lambda: trained(name, out / "m.safetensors", ledger, epsilon=60.0))


@pytest.mark.parametrize("name", ["feature_dp", "public_features", "feature_projective"])
def test_a_second_and_finer_psi_leaves_no_public_picture(
    name: str, tmp_path: Path, out: Path
) -> None:
    ledger = enrolled(book(tmp_path, public="features"))
    done = trained("public_features", out / "first.safetensors", ledger)
    assert sidecar_path(done.value, SHEET_SUFFIX).is_file() and SHEET_SUFFIX in done.receipt.along
    finer = {"block": 1, "bits": 7}
    refused(out, lambda: trained(name, out / "m.safetensors", ledger, **finer), ValueError)


@pytest.mark.parametrize("name", catalog.list_entries("mechanisms"))
def test_a_release_that_nobody_pays_for_writes_nothing(
    name: str, tmp_path: Path, out: Path
) -> None:
    film = maker.make(tmp_path / "a.mkv", maker.moving(8, 48, 64), maker.KINDS["ffv1.mkv"])
    np.save(tmp_path / "a.npy", np.zeros((20, 3)))
    mechanism, ledger = catalog.make_example("mechanisms", name), book(tmp_path)
    is_film = isinstance(mechanism, VideoMechanism)
    source, suffix = (film, ".mkv") if is_film else (tmp_path / "a.npy", ".npy")

    def work() -> None:
        options = FileSettings(is_watched=False, accept_grey=True)
        release_file(source, out / f"b{suffix}", mechanism, ledger=ledger, options=options)

    refused(out, work, (ValueError, BudgetExceeded))


def test_a_folder_that_nobody_pays_for_stays_empty(tmp_path: Path, out: Path) -> None:
    films = tmp_path / "in"
    films.mkdir()
    for number in range(3):
        np.save(films / f"{number}.npy", np.full((20, 3), number))
    ledger, mechanism = book(tmp_path), catalog.make_example("mechanisms", "gaussian_noise")

    def work() -> None:
        done = release_folder(films, out, mechanism, ledger=ledger, work=FolderSettings(jobs=1))
        assert all(each.error is not None for each in done)
        raise BadInput(done[0].error or "")

    refused(out, work)


def test_votes_that_nobody_pays_for_leave_no_student(tmp_path: Path, out: Path) -> None:
    ledger = book(tmp_path)
    refused(out, lambda: teaches(out / "s.safetensors", ledger=ledger))


def test_whoever_writes_beside_an_output_before_it_is_paid_for_is_stopped(out: Path) -> None:
    with hold_place(out / "b.npy", noise=Noise()):
        with pytest.raises(RuntimeError, match=r"paid for before it is written, got leak\.png"):
            atomic.write_whole(out / "leak.png", b"private")
        atomic.write_whole(out / "slip", b"", is_private=True)
    with suppress(FileNotFoundError):
        (out / "slip").unlink()
    atomic.write_whole(out / "later.png", b"fine")
