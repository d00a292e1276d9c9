"""DP-SGD on worn sensors from the command line, and under a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from few_signals import (
    PRIVATE,
    PUBLIC,
    FewSignals,
    charges,
    enrolled,
    pate,
    teaches,
    wears,
    write_watch,
)
from masquerade.datasets.stage import Stage
from masquerade.datasets.watch import Watch
from masquerade.errors import BadInput, BudgetExceeded, StopRequested
from masquerade.ledger import Ledger
from masquerade.ledger.filter import FilterName
from masquerade.publish import collections
from masquerade.publish.models import make_method
from masquerade.publish.receipts import check_receipt
from masquerade.training.learner import ComputeSettings, load_model
from masquerade.training.loop import Workload

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

RUN = ("--method", "dp_sgd", "--unit", "subject", "--part", "all", "--segments", "4")
RUN += ("--batch", "3", "--epochs", "2", "--lstm-hidden", "4")
PAID, FREE = ("--epsilon", "2"), ("--epsilon", "inf")  # the latter needs no calibration
STAGE = ("--data", "stage", "--wearers", "18")
LSTM = ("--network", "lstm", "--lstm-window", "32")


@pytest.fixture(scope="module")
def worn(world_cache: Path) -> Iterator[None]:
    """The tests' own cache; every recording is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        patch.setattr(Stage, "_load", cache(Stage._load))
        yield


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """Words for a made-up file of five people who did each exercise for 60 samples."""
    path = tmp_path_factory.mktemp("watch") / "watch_dataset.npy"
    write_watch(path)
    return ("--data", "watch", "--root", path)


WHO = ("--public-subjects", "1", "--test-subjects", "2", "--lstm-window", "20")


def method(**fields: Any) -> Any:
    given = {"epsilon": 2.0, "unit": "subject", "part": "all", "segments": 3, "batch": 3}
    return make_method("dp_sgd", **(given | {"epochs": 2.0} | fields))


def trains(path: Path, how: Any = None, **other: Any) -> Any:
    return wears(path, how or method(), **other)


def opened(folder: Path, data: Any = PRIVATE, **other: Any) -> Ledger:
    return enrolled(folder, data, **({"rule": FilterName.RENYI, "epsilon": 20.0} | other))


def test_a_model_of_the_stages_sensors_is_trained_tested_and_checked(
    worn: None, command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "m.safetensors"
    done = command("train", target, *RUN, *PAID, *STAGE, *LSTM, "--json")
    assert done.code == 0, done.err
    assert done.json["guarantee"]["epsilon"] <= 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.safetensors",
        f"{target.name}.receipt.json",
        f"{target.name}.receipt.json.sig",
    }
    receipt = check_receipt(target)
    assert receipt.shapes == ((6,),) and receipt.fields["segments"] == 4
    checked = command("receipt", "check", target)
    assert checked.code == 0 and "everything that one person contributed" in checked.out
    found = command("evaluate", target, *STAGE, "--json").json
    assert found["recordings"] == 3 and len(found["per_class"]) == 12
    found = load_model(target)
    assert found.classes == Stage().activities and len(found.net.head.weight.T) == 4
    assert found.network.length == 32
    again = command("train", target, *RUN, *PAID, *STAGE, *LSTM)
    assert again.code == 2 and "stands already" in again.err


def test_a_dry_run_of_the_stages_sensors_reads_nothing(
    worn: None, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise RuntimeError("a recording was read")

    monkeypatch.setattr(Stage, "_load", read)
    words = ("train", tmp_path / "m.safetensors", *RUN, *STAGE, *LSTM)
    done = command(*words, *PAID, "--dry-run")
    assert done.code == 0 and "6 units of the split train" in done.out, done.err
    assert "nothing was written" in done.out and not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="was read"):
        command(*words, *FREE)


@pytest.mark.parametrize(("unit", "units"), [("subject", 3), ("video", 21)])
def test_a_data_set_of_signals_is_learned_by_an_lstm_without_saying_so(
    unit: str, units: int, watch: Any, command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "m.safetensors"
    done = command("train", target, *RUN, *FREE, *watch, *WHO, "--unit", unit, "--recordings", "7")
    assert done.code == 0, done.err
    assert check_receipt(target).shapes == ((units,),)
    found = command("evaluate", target, *watch, "--subjects", "2", "--json")
    assert found.code == 0 and found.json["recordings"] == 7 and len(found.json["per_class"]) == 7
    other = command("train", tmp_path / "n.safetensors", *RUN, *FREE, *watch, *WHO[2:])
    assert other.code == 2 and "--public-subjects with some of 1, 2, 3, 4, 5, got none" in other.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--weights", "w.safetensors"), "no --weights with lstm, which always begins"),
        (("--from-scratch",), "no --from-scratch with lstm"),
        (("--keep-head",), "no --keep-head with lstm"),
        (("--precision", "bfloat16"), "precision=float32 with an LSTM, got precision=bfloat16"),
        (("--part", "norms"), "which has no norms, got part=norms"),
        (("--lstm-window", "0"), "window to be a whole number >= 1"),
        (("--lstm-hidden", "-1"), "hidden to be a whole number >= 1"),
        (("--checkpoint-every", "-1"), "checkpoint_every to be finite and >= 0"),
        (("--method", "mask_dp"), "without a public part for worn sensors, got mask_dp"),
        (("--method", "public_part"), "got public_part; use dp_sgd"),
        (("--network", "mvit_small"), "with worn sensors alone, got a network for pictures"),
        (("--grid", "epsilon=1,2"), "Expected --ledger with --grid"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_an_lstm_has_no_use_for_is_refused(
    words: Any, message: str, dry: Any, watch: Any, command: Any, tmp_path: Path
) -> None:
    first = RUN[2:] if words[0] == "--method" else RUN
    done = command("train", tmp_path / "m.safetensors", *first, *FREE, *watch, *WHO, *words, *dry)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err
    assert not list(tmp_path.iterdir())


def test_signals_and_videos_are_not_taken_for_each_other(
    watch: Any, command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "m.safetensors"
    done = command("train", target, *RUN, *FREE, *watch, "--network", "mvit_small")
    assert done.code == 4 and "Expected a data set of videos" in done.err
    done = command("train", target, *RUN, *FREE, *LSTM, "--data", "folder", "--root", tmp_path)
    assert done.code == 4 and "Expected a data set of signals" in done.err


@pytest.mark.parametrize("name", ["public", "test"])
def test_the_stage_has_splits_of_its_own(name: str, command: Any, tmp_path: Path) -> None:
    words = (*STAGE, f"--{name}-subjects", "1,2")
    said = f"no --{name}-subjects with Stage, which has its own {name} split, got 1,2"
    done = command("train", tmp_path / "m.safetensors", *RUN, *FREE, *LSTM, *words)
    assert done.code == 2 and said in " ".join(done.err.split())
    votes = ("--method", "pate", "--epsilon", "2", "--unit", "subject")
    done = command("train", tmp_path / "m.safetensors", *votes, *words)
    assert done.code == 2 and said in " ".join(done.err.split())
    done = command("train", tmp_path / "m.safetensors", *RUN, *FREE, *words)
    assert done.code == 2 and "with worn sensors alone" in " ".join(done.err.split())
    with pytest.raises(ValueError, match="its own"):
        collections.select_signals(Stage(), **{name: "s001"})


def test_everybody_who_is_learned_from_is_charged_before_the_first_step(tmp_path: Path) -> None:
    data, how = FewSignals(records=2), method()
    ledger = opened(tmp_path, data)
    held: list[int] = []

    def tell(what: str, done: int, total: int) -> None:
        if what == "training":
            held.append(len(charges(Ledger(tmp_path / "b.db"))))

    done = trains(tmp_path / "m.safetensors", how, private=data, ledger=ledger, progress=tell)
    assert held == [1] * 4, "on disk at every step"
    assert charges(ledger) == [dict.fromkeys("abcdef", how.event(how.plan_run(6)))]
    assert done.receipt.ledger_sequence == 14 and list(
        ledger.read_book().output_by_reservation
    ) == [14]
    assert not ledger.find_strangers([done.receipt]) and not list(tmp_path.glob("*.private-run*"))


def test_a_run_that_was_stopped_is_charged_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path)

    def stop(what: str, done: int, total: int) -> None:
        if what == "training" and done == 3:
            raise KeyboardInterrupt

    ways = ComputeSettings(work=Workload(checkpoint=tmp_path / "c", every=2))
    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        trains(tmp_path / "m.safetensors", ledger=ledger, ways=ways, progress=stop)
    steps: list[int] = []
    tell = {"progress": lambda what, done, _: steps.append(done) if what == "training" else None}
    trains(tmp_path / "m.safetensors", ledger=ledger, ways=ways, **tell)
    assert (
        steps == [3, 4]
        and len(charges(ledger)) == len(ledger.read_book().output_by_reservation) == 1
    )


@pytest.mark.parametrize("learns", [trains, lambda path, **other: teaches(path, pate(), **other)])
def test_a_run_that_the_system_ends_says_so_and_not_that_a_person_did(
    learns: Any, tmp_path: Path
) -> None:
    def end(what: str, done: int, total: int) -> None:
        raise StopRequested

    with pytest.raises(StopRequested, match="no model was written"):
        learns(tmp_path / "m.safetensors", progress=end)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"how": method(epsilon=30.0)}, BudgetExceeded, "budget"),
        ({"public": replace(PUBLIC, odd={"values": PRIVATE[2].values})}, BadInput, "got 1 that"),
        ({"public": replace(PUBLIC, odd={"rate_hz": 1.0})}, BadInput, "one rate"),
        ({"private": FewSignals(subjects=tuple("abg"))}, BadInput, "1 of 3 that are in none"),
        ({"how": method(part="norms")}, ValueError, "no norms"),
    ],
    ids=["dear", "protected", "rate", "stranger", "norms"],
)
def test_nobody_is_charged_for_a_run_that_cannot_begin(
    wrong: dict[str, Any], error: Any, message: str, tmp_path: Path
) -> None:
    ledger, told = opened(tmp_path), list[str]()
    tell = {"progress": lambda what, done, total: told.append(what)}
    with pytest.raises(error, match=message):
        trains(tmp_path / "m.safetensors", ledger=ledger, **wrong, **tell)
    assert "training" not in told and not charges(ledger)
    assert not list(tmp_path.glob("m*"))


@pytest.fixture
def book(watch: Any, command: Any, tmp_path: Path) -> Path:
    """A ledger with all people of the watch but the first."""
    path = tmp_path / "b.db"
    limits = ("--epsilon", "20", "--delta", "1e-5", "--filter", "renyi", "--unit", "subject")
    assert command("ledger", "open", "ward", "--ledger", path, *limits).code == 0
    for who in "2345":
        words = ("ledger", "enroll", "ward", "--ledger", path, *watch, "--subjects", who)
        assert command(*words).code == 0
    return path


def test_a_dry_run_asks_the_ledger_who_is_public_too(
    book: Path, watch: Any, command: Any, tmp_path: Path
) -> None:
    words = ("train", tmp_path / "m.safetensors", *RUN, *PAID, *watch, *WHO, "--ledger", book)
    done = command(*words, "--dry-run")
    assert done.code == 0 and "The ledger affords it" in done.out, done.err
    assert command(*words, "--epsilon", "30", "--dry-run").code == 3
    swapped = ("--public-subjects", "2", "--test-subjects", "1")
    for more in ((), ("--dry-run",)):
        done = command(*words, *swapped, *more)
        assert done.code == 4 and "got 7 that are in an account" in " ".join(done.err.split())
    assert not charges(Ledger(book)) and not list(tmp_path.glob("m*"))


def test_a_grid_over_signals_is_paid_for_run_by_run(
    book: Path, watch: Any, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("train", tmp_path / "m.safetensors", *RUN, *PAID, *watch, *WHO, "--ledger", book)
    wrong = command(*words, "--grid", "part=all,norms")
    assert wrong.code == 2 and "no norms" in wrong.err and not charges(Ledger(book))
    reads = list[int]()
    load = Watch._load
    monkeypatch.setattr(
        Watch, "_load", lambda self, index: reads.append(len(self.subjects)) or load(self, index)
    )
    done = command(*words, "--grid", "part=all,head", "--checkpoint-every", "1", "--json")
    assert done.code == 0, done.err
    assert [run["fields"]["part"] for run in done.json["runs"]] == ["all", "head"]
    assert reads.count(1) == 7, "public recordings are read once"
    assert [sorted(found) for found in charges(Ledger(book))] == [["3", "4", "5"]] * 2
    assert {path.name for path in tmp_path.glob("m*")} == {
        f"m-{number}.safetensors{end}"
        for number in (1, 2)
        for end in ("", ".private-learned", ".receipt.json", ".receipt.json.sig")
    }


def test_a_grid_keeps_no_model_of_another_network(
    book: Path, watch: Any, command: Any, tmp_path: Path
) -> None:
    words = ("train", tmp_path / "m.safetensors", *RUN, *PAID, *watch, *WHO, "--ledger", book)
    words += ("--grid", "batch=2,3")
    assert command(*words).code == 0
    (tmp_path / "m-1.safetensors").unlink()
    for other in (("--lstm-window", "30"), ("--lstm-hidden", "5")):
        done = command(*words, *other)
        assert done.code == 2 and "m-2.safetensors stands already" in done.err
    assert len(charges(Ledger(book))) == 2, "nobody was charged for another first run"
    assert (
        command(*words, "--json").json["runs"][1]["ledger_sequence"]
        and len(charges(Ledger(book))) == 3
    )


@pytest.mark.parametrize("words", [("--lstm-window", "9"), ("--lstm-hidden", "9")])
def test_a_network_for_videos_has_no_use_for_an_lstms_size(
    words: Any, command: Any, tmp_path: Path
) -> None:
    done = command("train", tmp_path / "m.safetensors", *RUN[:-2], *FREE, "--data", "stage", *words)
    said = f"no {words[0]} with a network for videos, got 9; leave it out"
    assert done.code == 2 and said in " ".join(done.err.split())


VOTES = ("--method", "pate", "--epsilon", "2", "--unit", "subject", "--shards", "2")
VOTES += ("--windows", "20", "--queries", "10", "--teacher", "nearest")


def test_a_dry_run_of_votes_asks_the_ledger_who_is_public_too(
    book: Path, watch: Any, command: Any, tmp_path: Path
) -> None:
    words = ("train", tmp_path / "m.safetensors", *VOTES, *watch, "--ledger", book)
    for more in ((), ("--dry-run",)):
        done = command(*words, "--public-subjects", "2", "--test-subjects", "1", *more)
        assert done.code == 4 and "got 7 that are in an account" in " ".join(done.err.split())
    who = ("--public-subjects", "1", "--test-subjects", "2")
    assert command(*words, *who, "--dry-run").code == 0
    assert not charges(Ledger(book)) and not list(tmp_path.glob("m*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--network", "mvit_small"), "no --network with votes, whose student is an LSTM, got mvi"),
        (("--weights", "w"), "no --weights with lstm, which always begins"),
        (("--from-scratch",), "no --from-scratch with lstm"),
        (("--keep-head",), "no --keep-head with lstm"),
        (("--lstm-window", "20"), "with votes: choose --windows and --hidden, got 20"),
        (("--lstm-hidden", "20"), "with votes: choose --windows and --hidden, got 20"),
        (("--precision", "bfloat16"), "no --precision with votes"),
        (("--checkpoint-every", "3"), "no --checkpoint-every with votes"),
    ],
)
def test_what_votes_have_no_use_for_is_refused(
    words: Any, message: str, watch: Any, command: Any, tmp_path: Path
) -> None:
    first = ("train", tmp_path / "m.safetensors", *VOTES, *watch, "--public-subjects", "1")
    done = command(*first, *words)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err
    assert command(*first, "--network", "lstm", "--dry-run").code == 0
    assert not list(tmp_path.iterdir())


def test_kept_labels_are_given_to_no_other_windows(tmp_path: Path) -> None:
    ledger, target = enrolled(tmp_path), tmp_path / "m.safetensors"

    def stop(what: str, done: int, total: int) -> None:
        if what == "votes":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="goes on with the same run"):
        teaches(target, pate(), ledger=ledger, progress=stop)
    other = FewSignals(subjects=tuple("uvw"))
    with pytest.raises(BadInput, match="that were asked before the run was stopped, got others"):
        teaches(target, pate(), ledger=ledger, public=other)
    teaches(target, pate(), ledger=ledger)
    assert len(charges(ledger)) == len(ledger.read_book().output_by_reservation) == 1
