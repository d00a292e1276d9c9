"""Teaching a student from the command line and from Python, with and without a ledger."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from few_films import Few
from few_signals import (
    PRIVATE,
    PUBLIC,
    FewSignals,
    NearestMean,
    charges,
    enrolled,
    pate,
    teach_until,
    teaches,
    tempdiff,
    write_watch,
)
from masquerade.accounting import compute_epsilon
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import GuaranteeKind, Relation
from masquerade.io import downloads
from masquerade.ledger import Ledger
from masquerade.noise import Noise
from masquerade.publish import collections
from masquerade.publish.evaluation import measure_accuracy
from masquerade.publish.receipts import check_receipt
from masquerade.training import teach
from masquerade.training.learner import load_model
from masquerade.training.votes import Ballot
from masquerade.training.worn import cut_labelled_windows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

RUN = ("--method", "tempdiff", "--epsilon", "4", "--unit", "subject", "--queries", "20")
RUN += ("--hidden", "4", "--teacher-epochs", "1", "--student-epochs", "1")
STAGE, SMALL = ("--data", "stage", "--wearers", "18"), ("--shards", "2", "--windows", "10", "20")
OPEN = ("--delta", "1e-5", "--unit", "subject")


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


def test_a_student_of_the_stage_is_taught_tested_and_checked(
    worn: None, command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "m.safetensors"
    words = (*RUN, *STAGE, "--shards", "2", "--windows", "32", "48")
    dry = command("train", target, *words, "--dry-run")
    assert dry.code == 0 and "4 teachers, of which one person reaches at most 1" in dry.out
    assert "nothing was written" in dry.out and not list(tmp_path.iterdir())
    time = ("--by", "time", "--shards", "4", "--dry-run", "--json")
    cut = command("train", target, *RUN, *STAGE, *time).json
    assert (cut["teachers"], cut["max_teachers_per_subject"]) == (12, 2)
    assert cut["guarantee"]["epsilon"] <= 4.0 and cut["scale"] > 0
    done = command("train", target, *words, "--json")
    assert done.code == 0, done.err
    assert done.json["guarantee"]["unit"]["shards_per_subject"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.safetensors",
        f"{target.name}.receipt.json",
        f"{target.name}.receipt.json.sig",
    }
    checked = command("receipt", "check", target)
    assert checked.code == 0 and "reaches at most 1" in checked.out
    said = command("evaluate", target, *STAGE)
    assert said.code == 0 and "3 recordings of the split test" in said.out
    bars = [line.split() for line in said.out.splitlines()[1:]]
    assert len(bars) == 12 and any("#" in line[1] for line in bars) and bars[0][0] == "walk"
    found = command("evaluate", target, *STAGE, "--json").json
    assert found["recordings"] == 3 and len(found["per_class"]) == 12
    assert found["mean_per_class"] == pytest.approx(np.mean([*found["per_class"].values()]))
    again = command("train", target, *words)
    assert again.code == 2 and "stands already" in again.err


def test_people_of_the_stage_are_enrolled_and_charged_once_each(
    worn: None, command: Any, tmp_path: Path
) -> None:
    book, target = tmp_path / "b.db", tmp_path / "m.safetensors"
    command("ledger", "open", "ward", "--ledger", book, *OPEN, "--epsilon", "5")
    own = ("--kind", "signals")
    done = command("ledger", "enroll", "ward", "--ledger", book, *STAGE, *own)
    assert done.code == 0 and "6 recordings of the split train" in done.out
    words = ("train", target, *RUN, *STAGE, "--shards", "3", "--windows", "48", "--ledger", book)
    done = command(*words, "--json")
    assert done.code == 0, done.err
    assert done.json["ledger_sequence"] == 8
    assert len(Ledger(book).read_entries()[7].payload["charges"]) == 6
    assert command("ledger", "verify", "--ledger", book, "--receipts", tmp_path).code == 0
    other = command(*words[:1], tmp_path / "n.safetensors", *words[2:])
    assert other.code == 3 and "of its budget left" in other.err
    assert len(Ledger(book).read_entries()) == 9 and not list(tmp_path.glob("n*"))


def test_the_watch_data_are_split_by_people(command: Any, tmp_path: Path) -> None:
    try:
        path = downloads.fetch_asset("watch_dataset")
    except (OSError, BadInput) as error:
        pytest.skip(f"the package index is out of reach: {error}")
    data = ("--data", "watch", "--root", path)
    target = tmp_path / "m.safetensors"
    who = ("--public-subjects", "1,2,3", "--test-subjects", "4")
    done = command("train", target, *RUN, *SMALL, *data, *who, "--json")
    assert done.code == 0, done.err
    found = command("evaluate", target, *data, "--subjects", "4", "--json")
    assert found.code == 0 and found.json["recordings"] == 14 and len(found.json["per_class"]) == 7


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ((), "--public-subjects with some of 1, 2, 3, 4, 5, got none."),
        (("--public-subjects", "1,9,8"), "--public-subjects with some of 1, 2, 3, 4, 5, got 9, 8."),
        (("--public-subjects", "1", "--test-subjects", "x"), "--test-subjects with some of 1, "),
        (("--public-subjects", "1,2", "--test-subjects", "2"), "subjects in one part each"),
        (("--public-subjects", "1,2,3,4,5"), "some that are private"),
        (("--public-subjects", "1", "--grid", "epsilon=1,2"), "no --grid with a teacher ensemble"),
        (("--public-subjects", "1", "--shards", "5"), "give --shards "),
        (
            ("--public-subjects", "1", "--windows", "61"),
            "at least 61 samples|windows of 61 samples",
        ),
        (("--public-subjects", "1", "--queries", "999"), "; give --queries "),
    ],
)
def test_who_is_public_must_be_said_and_be_enough(
    who: tuple[str, ...], message: str, watch: Any, command: Any, tmp_path: Path
) -> None:
    done = command("train", tmp_path / "m.safetensors", *RUN, *SMALL, *watch, *who)
    said = " ".join(done.err.split())
    assert any(words in said for words in message.split("|")), done.err
    assert done.code == (4 if who[2:] and who[2] in ("--shards", "--windows", "--queries") else 2)
    assert not list(tmp_path.iterdir())


def test_a_rehearsal_says_so_in_its_name_and_promises_nothing(
    watch: Any, command: Any, tmp_path: Path
) -> None:
    words = (*RUN, *SMALL, *watch, "--public-subjects", " 1, 2 ", "--test-subjects", "3")
    for name in "mn":
        done = command("train", tmp_path / f"{name}.safetensors", *words, "--rehearsal-seed", "1")
        assert done.code == 0 and "No guarantee." in done.out
    one, other = (tmp_path / f"{name}.rehearsal.safetensors" for name in "mn")
    assert one.read_bytes() == other.read_bytes(), "all that is random is seeded"
    assert check_receipt(one).guarantee.kind is GuaranteeKind.NONE
    said = command("train", tmp_path / "m.onnx", *words)
    assert said.code == 2 and "end in .safetensors" in said.err
    assert command("train", tmp_path / "no" / "m.safetensors", *words).code == 2


def test_a_data_set_of_other_things_is_refused(command: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a data set of signals, got Few"):
        collections.select_signals(Few())
    with pytest.raises(BadInput, match="signals to learn from, got Videos"):
        teach.reach_of(Few(), tempdiff())
    target = tmp_path / "m.safetensors"
    done = command("train", target, *RUN, "--data", "folder", "--root", tmp_path)
    assert done.code == 4 and "a data set of signals" in done.err


FULL = np.zeros((240, 2), np.float32)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rate_hz": 10.0}, "one rate, got 20 and 10 Hz; resample"),
    ({"channels": ("x", "z")}, "the same channels"),
    ({"values": FULL[:, :1], "channels": ("x",)}, "the same channels"),
    ({"values": FULL[:, :1], "channels": ()}, "the same channels"),
]


@pytest.mark.parametrize(("odd", "message"), WRONG)
@pytest.mark.parametrize("is_public", [False, True])
def test_signals_that_do_not_fit_each_other_are_refused(
    odd: dict[str, Any], message: str, is_public: bool, tmp_path: Path
) -> None:
    strange = replace(PUBLIC if is_public else PRIVATE, odd=odd)
    if is_public:
        message = message.replace("20 and 10", "10 and 20")
    with pytest.raises(BadInput, match=message):
        teaches(tmp_path / "m.safetensors", **{"public" if is_public else "private": strange})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (FewSignals(odd={"activity": None}), "labelled signals to learn from"),
        (FewSignals(odd={"subject": None}), "whose a0 is, got nobody"),
        (FewSignals(classes=("sit",)), "at least two activities"),
        (FewSignals(subjects=tuple("abcdx")), "of other people, got 1 who are in both"),
        (FewSignals(subjects=()), "at least one recording, got none"),
        (FewSignals(length=15), "windows of 10 and 20 samples"),
    ],
)
def test_private_signals_that_nobody_could_learn_from_are_refused(
    private: FewSignals, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        teaches(tmp_path / "m.safetensors", private=private)
    assert not list(tmp_path.iterdir())


def test_labels_of_public_signals_are_not_read() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Unlabelled(FewSignals):
        def _load(self, index: int) -> Any:
            return replace(super()._load(index), activity=None)

    votes, nets = [], []
    for data in (PUBLIC, Unlabelled(subjects=PUBLIC.subjects)):
        school = teach.read_ensemble(PRIVATE, data, tempdiff())
        votes.append(school.collect_votes())
        nets.append(school.train_student(school.sample_labels(votes[-1], Noise(seed=3))))
    assert np.array_equal(*votes)
    assert torch.equal(nets[0].head.weight, nets[1].head.weight)


def test_the_student_knows_nothing_but_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = np.arange(10) % 3
    monkeypatch.setattr(Ballot, "sample_answers", lambda self, counts, noise: fixed)
    other = {"activity": np.full(240, 2), "values": 3 * PRIVATE[0].values}
    votes, states = [], []
    for private in (PRIVATE, FewSignals(odd=other)):
        school = teach.read_ensemble(private, PUBLIC, pate(shards=6))
        with joblib.parallel_config(backend="threading"):
            votes.append(school.collect_votes(lambda number: NearestMean()))
        states.append(school.train_student(school.sample_labels(votes[-1], Noise())).state_dict())
    assert (votes[0] != votes[1]).any(axis=1).tolist() == [True] + [False] * 5
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert len(set(school.asked.tolist())) == 10 and school.asked.max() < len(school.windows)
    again = teach.read_ensemble(PRIVATE, PUBLIC, pate(shards=6, public_seed=1))
    assert not np.array_equal(school.asked, again.asked), "another public seed asks other windows"


def test_a_model_is_tested_on_windows_that_one_activity_fills(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    teaches(
        path, tempdiff(epsilon=500.0, queries=60, teacher_epochs=30, student_epochs=30, hidden=8)
    )
    net, network, *_ = load_model(path)
    windows, right = cut_labelled_windows(list(PRIVATE), 20, classes=3)
    with torch.no_grad():
        guessed = net(torch.from_numpy(windows)).argmax(dim=1).numpy()
    found = measure_accuracy(net, network, PRIVATE)
    assert found.top_1 == (guessed == right).mean() > 0.5, "it learned"
    assert found.per_class == {
        name: (guessed == right)[right == number].mean()
        for number, name in enumerate(PRIVATE.activities)
    }
    with pytest.raises(BadInput, match="at least one window"):
        measure_accuracy(net, network, FewSignals(length=15))


@pytest.mark.parametrize(
    "odd", [{"rate_hz": 10.0}, {"values": FULL[:, :1], "channels": ()}, {"activity": None}]
)
def test_a_model_is_not_tested_on_other_sensors_or_without_labels(
    odd: dict[str, Any], tmp_path: Path
) -> None:
    teaches(tmp_path / "m.safetensors")
    net, network, *_ = load_model(tmp_path / "m.safetensors")
    with pytest.raises(BadInput, match=r"rate|channels|labelled"):
        measure_accuracy(net, network, FewSignals(subjects=("a",), odd=odd))


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("aggregator", ["gnmax", "gumbel"])
def test_a_person_pays_once_for_all_recordings_and_as_much_in_every_account(
    relation: Relation, aggregator: Any, tmp_path: Path
) -> None:
    data, target = FewSignals(records=2), tmp_path / "m.safetensors"
    method = pate(by="time", shards=9, aggregator=aggregator)
    ledger = enrolled(tmp_path, data, relation=relation)
    done = teaches(target, method, private=data, ledger=ledger)
    reach = done.receipt.guarantee.unit.shards_per_subject
    assert reach == 2
    assert charges(ledger) == [dict.fromkeys("abcdef", method.event(reach, relation))]
    cost = compute_epsilon(method.event(reach, relation), delta=1e-5, relation=relation)
    assert cost == pytest.approx(4.0, abs=2e-4)
    assert done.receipt.ledger_sequence == 14 and list(
        ledger.read_book().output_by_reservation
    ) == [14]
    assert not ledger.find_strangers([done.receipt]) and not list(tmp_path.glob("*.private-run*"))


def test_a_person_pays_for_all_teachers_also_where_the_promise_is_of_a_shard(
    tmp_path: Path,
) -> None:
    ledger, method = enrolled(tmp_path, epsilon=20.0), pate(by="time", shards=9, unit="shard")
    teaches(tmp_path / "m.safetensors", method, ledger=ledger)
    whole = replace(method.make_ballot(2), teachers_per_subject=2)
    assert whole.compute_epsilon(1e-5) > 9
    (paid,) = charges(ledger)
    found = compute_epsilon(paid["a"], delta=1e-5, relation=Relation.REPLACE_ONE)
    assert found >= whole.compute_epsilon(1e-5) - 2e-4


def test_what_cannot_be_paid_teaches_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    ledger, told = enrolled(tmp_path, epsilon=3.0), list[str]()
    tell = {"progress": lambda what, done, total: told.append(what)}
    with pytest.raises(BudgetExceeded):
        teaches(tmp_path / "m.safetensors", ledger=ledger, **tell)
    assert set(told) == {"reading", "reading public"} and not charges(ledger)
    stranger = FewSignals(subjects=tuple("abcdefg"))
    with pytest.raises(BadInput, match="1 of 7 that are in none"):
        teaches(tmp_path / "m.safetensors", tempdiff(epsilon=1.0), private=stranger, ledger=ledger)
    with pytest.raises(ValueError, match="live noise"):
        teaches(tmp_path / "m.safetensors", ledger=ledger, noise=Noise(seed=1))
    assert not charges(ledger) and not list(tmp_path.glob("m*"))


NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": tempdiff(queries=999)},
        {"public": FewSignals(subjects=("x",), length=15)},
        {"public": replace(PUBLIC, odd={"rate_hz": 1.0})},
        {"public": replace(PUBLIC, odd={"values": PRIVATE[2].values})},
        {"private": FewSignals(odd={"activity": None})},
        pytest.param({"device": "cuda"}, marks=NO_GPU),
    ],
    ids=["few", "short", "rate", "protected", "unlabelled", "device"],
)
def test_nobody_is_charged_for_a_run_that_cannot_begin(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    ledger = enrolled(tmp_path)
    with pytest.raises(ValueError, match="Expected"):
        teaches(tmp_path / "m.safetensors", ledger=ledger, **wrong)
    assert not charges(ledger) and not list(tmp_path.glob("m*"))


def test_a_dry_run_says_whether_the_ledger_affords_it(
    watch: Any, command: Any, tmp_path: Path
) -> None:
    book = tmp_path / "b.db"
    command("ledger", "open", "ward", "--ledger", book, *OPEN, "--epsilon", "1")
    command("ledger", "enroll", "ward", "--ledger", book, *watch, "--subjects", *"2345")
    words = (*RUN, *SMALL, *watch, "--public-subjects", "1", "--ledger", book, "--dry-run")
    assert command("train", tmp_path / "m.safetensors", *words).code == 3
    cheap = command("train", tmp_path / "m.safetensors", *words, "--epsilon", "0.5")
    assert cheap.code == 0 and "The ledger affords it" in cheap.out
    assert not list(tmp_path.glob("m*")) and not charges(Ledger(book))


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from few_signals import teach_until

teach_until(Path({folder!r}), "student")
"""


def test_a_killed_run_is_taken_up_and_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = enrolled(tmp_path)
    code = KILLED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == -9, done.stderr
    assert len(charges(ledger)) == 1 and not list(tmp_path.glob("m.safetensors"))
    with pytest.raises(BadInput, match=r"other recordings or settings.*private-run"):
        teaches(tmp_path / "m.safetensors", pate(queries=9), ledger=ledger)
    monkeypatch.setattr(
        Ballot, "sample_answers", lambda *_: pytest.fail("noise for one charge twice")
    )
    receipt = teach_until(tmp_path, None).receipt
    assert len(charges(ledger)) == 1 and list(ledger.read_book().output_by_reservation) == [
        receipt.ledger_sequence
    ]
    assert not list(tmp_path.glob("*.private-run*"))
    assert check_receipt(tmp_path / "m.safetensors") == receipt
