"""Training under a ledger: everyone pays once, for what a run costs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from few_films import Few, trains
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.group import group_event
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.events import event_from_json
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger import Content, Ledger, Run
from masquerade.ledger.filter import FilterName
from masquerade.noise import Noise
from masquerade.publish import bills, spine
from masquerade.publish.models import make_method
from masquerade.receipt import Receipt
from masquerade.recordings import Video
from masquerade.training.learner import ComputeSettings
from masquerade.training.loop import Workload
from masquerade.training.units import methods_of

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EVENT = make_sampled_gaussian(8.0, sampling_prob=0.5, steps=4)
EVENTS = {Relation.ZERO_OUT: EVENT, Relation.REPLACE_ONE: EVENT}
VIDEO, SUBJECT = Unit(name=UnitName.VIDEO), Unit(name=UnitName.SUBJECT)


@dataclass(frozen=True, kw_only=True)
class Twins(Few):
    """Films of which the last is the first once more."""

    def _load(self, index: int) -> Video:
        return super()._load(index % 7)


def opened(path: Path, unit: Unit = VIDEO, **other: Any) -> Ledger:
    ledger = Ledger(path / "budget.db")
    given = {"epsilon": 20.0, "delta": 1e-5, "rule": FilterName.RENYI} | other
    ledger.open_account("ward", unit, **given)
    return ledger


def enrolled(path: Path, unit: Unit = VIDEO, data: Few | None = None, **other: Any) -> Ledger:
    ledger = opened(path, unit, **other)
    is_people = unit is SUBJECT
    films = [
        (Content.from_value(video), video.subject if is_people else None) for video in data or Few()
    ]
    ledger.add_contents("ward", films)
    return ledger


def run_of(data: Few, units: list[int], **other: Any) -> Run:
    given: dict[str, Any] = {"run_id": "r", "method": "dp_sgd", "fields": {}, "events": EVENTS}
    contents = tuple(Content.from_value(video) for video in data)
    return Run(contents=contents, units=tuple(units), **(given | other))


def charged(ledger: Ledger, number: int = -1) -> dict[str, Any]:
    """Holder to event, of a reservation."""
    found = [entry for entry in ledger.read_entries() if entry.kind == "reserve"][number]
    return {
        charge["holder"]: event_from_json(charge["event"]) for charge in found.payload["charges"]
    }


def spends(ledger: Ledger) -> int:
    return sum(entry.kind == "reserve" for entry in ledger.read_entries())


def test_every_recording_pays_for_a_run_once(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    ledger.reserve_run(run_of(Few(), list(range(8))))
    found = charged(ledger)
    assert len(found) == 8 and set(found.values()) == {EVENT}
    again = ledger.reserve_run(run_of(Few(), list(range(8))))
    assert spends(ledger) == 1 and again.sequence == 10, "the same run is not charged twice"


def test_a_recording_that_is_in_twice_pays_as_a_group(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, data=Twins())
    ledger.reserve_run(run_of(Twins(), list(range(8))))
    found = list(charged(ledger).values())
    assert len(found) == 7 and found.count(EVENT) == 6 and group_event(EVENT, 2) in found


def test_a_person_pays_for_each_recording_or_once_where_people_are_the_units(
    tmp_path: Path,
) -> None:
    ledger = enrolled(tmp_path, SUBJECT)
    ledger.reserve_run(run_of(Few(), list(range(8))))
    assert charged(ledger) == {
        name: group_event(EVENT, count) for name, count in (("s0", 3), ("s1", 3), ("s2", 2))
    }
    ledger.reserve_run(run_of(Few(), [index % 3 for index in range(8)], run_id="people"))
    assert charged(ledger) == dict.fromkeys(("s0", "s1", "s2"), EVENT)


def test_a_recording_in_no_account_is_refused_and_nobody_pays(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.add_content("ward", Few()[0])
    with pytest.raises(BadInput, match="7 of 8 that are in none"):
        ledger.reserve_run(run_of(Few(), list(range(8))))
    assert spends(ledger) == 0


def test_one_who_cannot_pay_stops_the_run_for_all(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, epsilon=5.0)
    one = run_of(replace(Few()), list(range(8)))
    ledger.reserve_run(replace(one, contents=one.contents[:1], units=(0,), run_id="first"))
    with pytest.raises(BudgetExceeded):
        for number in range(50):
            ledger.reserve_run(replace(one, run_id=str(number)))
    book = ledger.read_book()
    accounts = book.accounts
    totals = sorted(book.count_charges(accounts[name], who) for name, who in book.cost_by_payer)
    assert totals[-1] == totals[0] + 1, "all or nobody, each time"


def test_public_pixels_are_only_free_where_the_account_says_so(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    run = run_of(Few(), list(range(8)), method="mask_dp", public="people", masks=(b"a",) * 8)
    with pytest.raises(ValueError, match="--public people"):
        ledger.reserve_run(run)
    (tmp_path / "other").mkdir()
    other = enrolled(tmp_path / "other", public="people")
    other.reserve_run(run)
    other.reserve_run(run_of(Few(), list(range(8)), run_id="whole"))
    with pytest.raises(ValueError, match="background are public"):
        other.reserve_run(replace(run, run_id="place", public="background"))
    assert spends(other) == 2 and spends(ledger) == 0


def test_zero_out_is_kept_only_where_a_holder_owns_whole_units(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    people = [index % 3 for index in range(8)]
    frame = Unit(name=UnitName.FRAME)
    ledger = enrolled(folders[0], frame, relation=Relation.ZERO_OUT)
    with pytest.raises(ValueError, match="opened with replace_one"):
        ledger.reserve_run(run_of(Few(), list(range(8))))
    ledger = enrolled(folders[1], relation=Relation.ZERO_OUT)
    with pytest.raises(ValueError, match="opened with replace_one"):
        ledger.reserve_run(run_of(Few(), people))
    ledger.reserve_run(run_of(Few(), list(range(8))))
    ledger = enrolled(folders[2], SUBJECT, relation=Relation.ZERO_OUT)
    ledger.reserve_run(run_of(Few(), people))


def test_who_comes_later_pays_for_runs_before(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    ledger.reserve_run(run_of(Few(), list(range(8))))
    ledger.open_account("people", SUBJECT, epsilon=40.0, delta=1e-5, rule=FilterName.RENYI)
    films = list(Few())
    paid = []
    for index in (0, 3, 1):
        ledger.add_content("people", films[index], subject=films[index].subject)
        paid.append(
            [event_from_json(c["event"]) for c in ledger.read_entries()[-1].payload["carried"]]
        )
    assert paid == [[EVENT], [group_event(EVENT, 2)], [EVENT]], "s0, s0 as a group, s1"
    ledger.reserve_run(run_of(Few(), [0] * 8, run_id="one unit"))
    ledger.add_content("people", films[6], subject="s0")
    carried = [event_from_json(c["event"]) for c in ledger.read_entries()[-1].payload["carried"]]
    assert carried == [group_event(EVENT, 3)], "nothing new of the run that had one unit"


def test_a_model_names_its_entry_and_is_settled(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    done = trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger)
    assert done.receipt.ledger_sequence == 10 and done.receipt.ledger_head is not None
    assert ledger.read_book().output_by_reservation == {10: done.receipt.output_sha256}
    assert not ledger.find_strangers([done.receipt])
    names = {f"m.safetensors{end}" for end in ("", ".receipt.json", ".receipt.json.sig")}
    names |= {"m.safetensors.private-learned"}
    names |= {"budget.db", "budget.db.witness"}
    assert {file.name for file in tmp_path.iterdir()} == names
    stranger = replace(done.receipt, fields=done.receipt.fields | {"batch": 5})
    assert ledger.find_strangers([stranger]) == [stranger]
    with pytest.raises(FileExistsError):
        trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger)
    assert spends(ledger) == 1


def test_what_cannot_be_paid_trains_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, epsilon=0.5)
    told: list[str] = []
    with pytest.raises(BudgetExceeded):
        trains(
            tmp_path / "m.safetensors",
            epsilon=4.0,
            ledger=ledger,
            progress=lambda what, done, total: told.append(what),
        )
    assert set(told) == {"reading"} and spends(ledger) == 0
    assert not list(tmp_path.glob("m.*"))


def test_a_rehearsal_and_a_run_without_noise_are_refused(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    with pytest.raises(ValueError, match="live noise"):
        trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger, noise=Noise(seed=1))
    with pytest.raises(ValueError, match="known Renyi divergence"):
        trains(tmp_path / "m.safetensors", ledger=ledger)
    assert spends(ledger) == 0 and not list(tmp_path.glob("m*"))


KILLED = """
import os, signal, sys
sys.path[:0] = {tests!r}
from pathlib import Path
import test_train_ledger as t

t.train_until(Path({folder!r}), {steps})
"""


def train_until(folder: Path, steps: int | None) -> list[tuple[str, int, int]]:
    """Train with checkpoints; die without a word at a step, or, at 0, before the first one."""
    told: list[tuple[str, int, int]] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((what, done, total))
        if what == "training" and done == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    if steps == 0:
        reserve = Ledger.reserve_run

        def then_die(self: Ledger, run: Run) -> Any:
            reserve(self, run)
            os.kill(os.getpid(), signal.SIGKILL)

        Ledger.reserve_run = then_die  # type: ignore[method-assign]
    work = Workload(checkpoint=folder / "c", every=2)
    trains(
        folder / "m.safetensors",
        epsilon=2.0,
        epochs=5.0,
        ledger=Ledger(folder / "budget.db"),
        ways=ComputeSettings(work=work),
        progress=tell,
    )
    return told


@pytest.mark.parametrize("steps", [0, 5])
def test_a_killed_run_is_taken_up_and_charged_once(tmp_path: Path, steps: int) -> None:
    ledger = enrolled(tmp_path)
    code = KILLED.format(
        tests=[str(each) for each in Path(__file__).parents[:2]], folder=str(tmp_path), steps=steps
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == -9, done.stderr
    assert spends(ledger) == 1 and not (tmp_path / "m.safetensors").exists()
    told = train_until(tmp_path, None)
    trained = [done for what, done, _ in told if what == "training"]
    assert trained == list(range(steps // 2 * 2 + 1, 11)), "ten steps in all"
    assert spends(ledger) == 1 and list(ledger.read_book().output_by_reservation) == [10]
    assert not list(tmp_path.glob("*.private-run"))


def test_a_run_that_was_begun_does_not_pay_for_another(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)

    def stop(what: str, done: int, total: int) -> None:
        if what == "training":
            raise KeyboardInterrupt

    target = tmp_path / "m.safetensors"
    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        trains(target, epsilon=2.0, ledger=ledger, progress=stop)
    slip = tmp_path / "m.safetensors.private-run"
    assert slip.stat().st_mode & 0o077 == 0
    with pytest.raises(BadInput, match=r"other recordings or settings.*private-run"):
        trains(target, epsilon=4.0, ledger=ledger)
    slip.unlink()
    trains(target, epsilon=4.0, ledger=ledger)
    assert spends(ledger) == 2


def test_a_stop_right_after_the_charge_does_not_lead_to_a_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, reserve = enrolled(tmp_path), Ledger.reserve_run

    def then_stop(self: Ledger, run: Run) -> Any:
        reserve(self, run)
        raise OSError(28, "No space left on device")  # as the ledger's witness may find

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(Ledger, "reserve_run", then_stop)
        trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger)
    trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger)
    assert spends(ledger) == 1


def test_a_checkpoint_is_not_another_charges(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    ways = ComputeSettings(work=Workload(checkpoint=tmp_path / "c", every=1))

    def stop(what: str, done: int, total: int) -> None:
        if what == "training" and done == 3:
            raise KeyboardInterrupt

    target = tmp_path / "m.safetensors"
    with pytest.raises(KeyboardInterrupt):
        trains(target, epsilon=2.0, ledger=ledger, ways=ways, progress=stop)
    (tmp_path / "m.safetensors.private-run").unlink()
    with pytest.raises(BadInput, match="another run's"):
        trains(target, epsilon=2.0, ledger=ledger, ways=ways)


def test_one_charge_is_good_for_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = enrolled(tmp_path)
    (tmp_path / "copy").mkdir()

    def copies(what: str, done: int, total: int) -> None:
        if what == "training" and done == 1:
            for slip in tmp_path.glob("*.private-run"):
                (tmp_path / "copy" / slip.name).write_bytes(slip.read_bytes())

    trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger, progress=copies)
    with pytest.raises(BadInput, match="that has ended"):
        trains(tmp_path / "copy" / "m.safetensors", epsilon=2.0, ledger=ledger)
    receipt = Receipt.from_json((tmp_path / "m.safetensors.receipt.json").read_text())
    with pytest.raises(BadInput, match="one charge is good for one output"):
        ledger.record_output(replace(receipt, output_sha256="0" * 64))
    assert spends(ledger) == 1 and not list((tmp_path / "copy").glob("*.safetensors"))


def test_a_run_is_settled_before_its_model_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, target = enrolled(tmp_path), tmp_path / "m.safetensors"

    def away(self: Ledger, receipt: Receipt) -> None:
        assert not target.exists() and not spine.receipt_path(target).exists()
        parts = list(tmp_path.glob(".masquerade-*.part"))
        assert len(parts) == 3 and all(part.stat().st_mode & 0o077 == 0 for part in parts)
        raise BadInput("the server is away")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record_output", away)
        with pytest.raises(BadInput, match="server is away"):
            trains(target, epsilon=2.0, ledger=ledger)
    assert not target.exists() and not list(tmp_path.glob(".masquerade-*"))
    trains(target, epsilon=2.0, ledger=ledger)
    assert spends(ledger) == 1 and len(ledger.read_book().output_by_reservation) == 1


def test_people_who_are_enrolled_after_a_run_pay_for_it_once(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    ledger.reserve_run(run_of(Few(), [index % 3 for index in range(8)]))
    ledger.reserve_run(run_of(Few(), list(range(8)), run_id="videos"))
    for relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT):
        name = str(relation)
        ledger.open_account(
            name, SUBJECT, epsilon=60.0, delta=1e-5, rule=FilterName.RENYI, relation=relation
        )
        ledger.add_contents(name, [(Content.from_value(video), video.subject) for video in Few()])
        book = ledger.read_book()
        for who, count in (("s0", 3), ("s1", 3), ("s2", 2)):
            kinds = book.list_event_kinds(book.accounts[name], who)
            assert kinds == [(EVENT, 1), (group_event(EVENT, count), 1)]


def test_a_wrong_number_of_class_weights_costs_nothing(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path)
    with pytest.raises(ValueError, match="class_weights for 2 classes, got 3"):
        trains(tmp_path / "m.safetensors", epsilon=2.0, ledger=ledger, class_weights=(1.0,) * 3)
    assert spends(ledger) == 0


@pytest.mark.parametrize("is_paid", [True, False])
def test_a_quote_of_several_runs_is_of_all_together(tmp_path: Path, is_paid: bool) -> None:
    ledger = enrolled(tmp_path, epsilon=9.0 if is_paid else 4.5)
    method = make_method("dp_sgd", epsilon=1.5, unit="video", batch=4, epochs=2.0)
    methods = [each for _, each in methods_of(method, "learning_rate=0.1,0.2,0.3")]
    plans = [each.plan_run(8) for each in methods]
    quiet = {"unit": "video"}
    one, all_of_them = (bills.make_run_cost(method, some, {}) for some in (plans[:1], plans))
    bills.quote_cost(ledger, Few(), one, **quiet)
    if is_paid:
        bills.quote_cost(ledger, Few(), all_of_them, **quiet)
    else:
        with pytest.raises(BudgetExceeded):
            bills.quote_cost(ledger, Few(), all_of_them, **quiet)
    assert spends(ledger) == 0
