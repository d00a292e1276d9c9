"""Accounts, members, charges and second runs, in SQLite and in a real PostgreSQL server."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import secrets
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import FileSettings, make_mechanism, release_file, release_value
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.ledger import store as ledger_store
from masquerade.ledger.content import Content
from masquerade.ledger.filter import FilterName
from masquerade.ledger.words import make_summary
from masquerade.mechanism import Mechanism
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.noise import Noise
from masquerade.publish.spine import IfExists
from masquerade.tradeoff import gaussian_epsilon, gaussian_mu

DELTA = 1e-5
AGAIN = FileSettings(if_standing=IfExists.OVERWRITE)
MECHANISM = make_mechanism("gaussian_noise", epsilon=1, delta=DELTA, unit="frame", low=0, high=9)
FLAGS = f"--mechanism gaussian_noise --epsilon 1 --delta {DELTA} --unit frame --low 0 --high 9"
FRAME, SUBJECT = Unit(name=UnitName.FRAME), Unit(name=UnitName.SUBJECT)


@dataclass(frozen=True, kw_only=True)
class OneUnitOnly(GaussianNoise):
    """A mechanism that states its cost for its own unit and no other."""

    event_for = Mechanism.event_for


@functools.cache
def server() -> Any:
    """A PostgreSQL server for this run of the tests; it stops, and is deleted, at exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgserver's: no runtime directory, open pipes
        import pgserver

        folder = Path(tempfile.mkdtemp(prefix="masquerade-postgres-"))
        return pgserver.get_server(folder, cleanup_mode="delete")


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where no ledger is yet."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name = f"budget_{secrets.token_hex(8)}"
    server().psql(f"CREATE DATABASE {name};")
    return str(server().get_uri(database=name))


def affords(count: int) -> float:
    """Epsilon of a cap that ``count`` releases of MECHANISM fit into, and not one more."""
    return gaussian_epsilon(gaussian_mu(1, DELTA) * math.sqrt(count + 0.5), DELTA)


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, (4, 3)).astype(float)


def opened(address: str, *, count: int = 3, members: int = 1, name: str = "ward") -> Ledger:
    """A ledger with one account for frames that affords ``count`` releases of each member."""
    ledger = Ledger(address)
    ledger.open_account(name, FRAME, epsilon=affords(count), delta=DELTA)
    for seed in range(members):
        ledger.add_content(name, values(seed))
    return ledger


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.read_entries()]


def reserve_all(ledger: Ledger, value: np.ndarray, mechanism: Mechanism = MECHANISM) -> int:
    """How many releases get through before the first refusal."""
    for count in range(100):
        try:
            ledger.reserve_release(value, mechanism)
        except BudgetExceeded:
            return count
    raise AssertionError("no refusal in a hundred releases")


def test_an_account_is_read_back_as_it_was_opened(address: str) -> None:
    ledger = Ledger(address)
    account = ledger.open_account(
        "faces",
        Unit(name=UnitName.TUBE, sites=16),
        epsilon=2.5,
        delta=1e-6,
        relation=Relation.ZERO_OUT,
        rule=FilterName.RENYI,
    )
    assert Ledger(address).read_book().accounts == {"faces": account}
    assert account.cap.order is not None and account.cap.order > 1


def test_the_cap_is_kept_and_a_refusal_spends_nothing(address: str) -> None:
    ledger = opened(address, count=3)
    assert reserve_all(ledger, values(0)) == 3
    before = ledger.read_entries()
    with pytest.raises(BudgetExceeded, match=r"14\.3 % of its budget left .* Nothing was spent"):
        ledger.reserve_release(values(0), MECHANISM)
    assert ledger.read_entries() == before
    book = ledger.read_book()
    fixed = make_summary(book, book.accounts["ward"], set())["fixed_list_epsilon"]
    assert fixed == pytest.approx(gaussian_epsilon(gaussian_mu(1, DELTA) * 3**0.5, DELTA), abs=2e-4)


def test_the_spend_is_recorded_before_the_mechanism_runs(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, seen, apply = opened(address), [], GaussianNoise.apply

    def watched(self: GaussianNoise, value: Any, noise: Noise) -> Any:
        seen.append(kinds(ledger))
        return apply(self, value, noise)

    monkeypatch.setattr(GaussianNoise, "apply", watched)
    receipt = release_value(values(0), MECHANISM, ledger=ledger).receipt
    assert seen == [["open", "add", "reserve"]]
    assert kinds(ledger) == ["open", "add", "reserve", "settle"]
    assert (
        ledger.read_book().output_by_reservation == {3: receipt.output_sha256}
        and receipt.ledger_sequence == 3
    )
    assert receipt.ledger_head == ledger.read_entries()[2].head
    ledger.record_output(receipt)
    assert len(ledger.read_entries()) == 4, "settling twice changes nothing"

    def broken(self: GaussianNoise, value: Any, noise: Noise) -> Any:
        raise RuntimeError("power cut")

    monkeypatch.setattr(GaussianNoise, "apply", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        release_value(values(0), MECHANISM, ledger=ledger)
    assert kinds(ledger)[-1] == "reserve", "a crash leaves the budget spent"


def test_every_account_that_holds_a_file_is_charged_or_none(address: str) -> None:
    ledger = opened(address, count=3, name="ward")
    ledger.open_account("hospital", SUBJECT, epsilon=60, delta=DELTA)
    ledger.open_account("tight", FRAME, epsilon=affords(1), delta=DELTA)
    ledger.add_content("hospital", values(0), subject="ann")
    ledger.reserve_release(values(0), MECHANISM)
    [ward, hospital] = ledger.read_entries()[-1].payload["charges"]
    assert [ward["account"], hospital["account"]] == ["ward", "hospital"]
    assert int(hospital["cost"]) == pytest.approx(4 * int(ward["cost"]), rel=1e-5), "four frames"
    ledger.add_content("tight", values(0), remake=make_mechanism)
    before = ledger.read_book()
    for ask in (ledger.quote_release, ledger.reserve_release):
        with pytest.raises(BudgetExceeded, match="account tight"):
            ask(values(0), MECHANISM)
    assert ledger.read_book() == before, "ward could have paid, and did not"


def test_inside_a_file_every_file_has_its_own_total(address: str) -> None:
    ledger = opened(address, count=2, members=2)
    assert [reserve_all(ledger, values(seed)) for seed in (0, 1)] == [2, 2]


def test_a_subject_pays_for_all_of_its_files(address: str) -> None:
    mechanism = replace(MECHANISM, unit="subject")  # type: ignore[type-var]
    ledger = Ledger(address)
    ledger.open_account("people", SUBJECT, epsilon=affords(3), delta=DELTA)
    for seed, subject in enumerate(["ann", "ann", "ben"]):
        ledger.add_content("people", values(seed), subject=subject)
    ledger.reserve_release(values(0), mechanism)
    assert reserve_all(ledger, values(1), mechanism) == 2
    assert reserve_all(ledger, values(2), mechanism) == 3
    with pytest.raises(BudgetExceeded, match="account people"):
        ledger.add_content(
            "people", values(2), subject="ann", remake=make_mechanism
        )  # for ben's as well
    for both in ("cleo", " dora "):  # both are in the picture: both pay
        ledger.add_content("people", values(4), subject=both)
    ledger.reserve_release(values(4), mechanism)
    assert [c["holder"] for c in ledger.read_entries()[-1].payload["charges"]] == ["cleo", "dora"]
    with pytest.raises(ValueError, match="Expected a subject exactly where"):
        ledger.add_content("people", values(3))


def test_files_that_show_the_same_footage_are_charged_as_one(address: str) -> None:
    ledger = opened(address, count=3, members=2)
    trimmed = values(0)[:3]
    member = ledger.add_content("ward", trimmed, same_as=values(0))
    assert member == ledger.add_content("ward", values(0)) == ledger.add_content("ward", trimmed)
    ledger.reserve_release(values(0), MECHANISM)
    assert reserve_all(ledger, trimmed) == 2
    assert reserve_all(ledger, values(1)) == 3
    with pytest.raises(ValueError, match="both are members of their own"):
        ledger.add_content("ward", values(1), same_as=values(0))
    with pytest.raises(BadInput, match="in an account"):
        ledger.reserve_release(values(7), MECHANISM)


def test_what_cannot_be_charged_is_refused(address: str) -> None:
    ledger = opened(address)
    with pytest.raises(BadInput, match="in an account of this ledger"):
        ledger.reserve_release(values(9), MECHANISM)
    with pytest.raises(ValueError, match="live noise under a ledger"):
        release_value(values(0), MECHANISM, noise=Noise(seed=1), ledger=ledger)
    ledger.open_account("people", SUBJECT, epsilon=50, delta=DELTA)
    ledger.add_content("people", values(1), subject="ann")
    only = OneUnitOnly(epsilon=1, delta=DELTA, unit="frame", low=0, high=9)
    with pytest.raises(ValueError, match="states its cost for subject, the unit of the account"):
        ledger.reserve_release(values(1), only)
    ledger.reserve_release(values(0), only)
    ledger.open_account("teachers", Unit(name=UnitName.SHARD), epsilon=50, delta=DELTA)
    ledger.add_content("teachers", values(1), subject="teacher 1")
    with pytest.raises(ValueError, match="states its cost for shard"):
        ledger.reserve_release(values(1), MECHANISM)
    assert kinds(ledger).count("reserve") == 1


def test_the_same_numbers_are_the_same_member_in_every_format(address: str, tmp_path: Path) -> None:
    ledger, numbers = opened(address), values(0)
    np.save(tmp_path / "a.npy", numbers.astype(np.uint8))
    (tmp_path / "a.csv").write_text("\n".join(",".join(map(repr, row)) for row in numbers.tolist()))
    for place, name in enumerate(["a.npy", "a.csv"]):
        release_file(tmp_path / name, tmp_path / f"out-{place}.npy", MECHANISM, ledger=ledger)
    spends = [entry.payload for entry in ledger.read_entries() if entry.kind == "reserve"]
    assert len(spends) == 2 and spends[0]["member"] == spends[1]["member"]
    others = numbers + 2.0**-40, numbers.reshape(3, 4), (numbers, numbers)
    assert Content.from_value(numbers).fingerprint not in [
        Content.from_value(o).fingerprint for o in others
    ]


def test_a_receipt_does_not_depend_on_what_the_file_holds(
    tmp_path: Path, same_bits: Callable[[], Noise], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two neighbours, two fresh ledgers, the same randomness and clock: the same receipt."""

    class Still(ledger_store.datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Still:
            return cls(2030, 1, 1, tzinfo=tz)

    monkeypatch.setattr(ledger_store.datetime, "datetime", Still)
    receipts = []
    for name, value in (("a", values(0)), ("b", np.vstack([values(0)[:3], [[9.0, 9, 9]]]))):
        count = itertools.count()
        monkeypatch.setattr(secrets, "token_hex", lambda n, c=count: f"{next(c):0{2 * n}x}")
        ledger = Ledger(tmp_path / f"{name}.db")
        ledger.open_account("ward", FRAME, epsilon=8, delta=DELTA)
        ledger.add_content("ward", value)
        receipts.append(release_value(value, MECHANISM, noise=same_bits(), ledger=ledger).receipt)
    assert receipts[0].output_sha256 != receipts[1].output_sha256
    assert receipts[0] == replace(receipts[1], output_sha256=receipts[0].output_sha256)


def test_key_and_hashes_stay_in_the_ledger(address: str, tmp_path: Path) -> None:
    ledger = opened(address)
    np.save(tmp_path / "in.npy", values(0))
    release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    text = (tmp_path / "out.npy.receipt.json").read_text()
    with ledger._store.open_ledger_session() as session:
        key, connection = session._key.hex(), session.connection
        [content] = connection.exec_driver_sql("SELECT content, member, mac FROM contents").all()
    assert Content.from_value(values(0)).fingerprint.hex() not in (content.content, content.mac)
    secret = [key, *content, Content.from_value(values(0)).fingerprint.hex()]
    assert all(len(word) >= 16 and word not in text for word in secret)
    assert ledger.read_entries()[2].head in text


def test_a_second_run_spends_nothing(address: str, tmp_path: Path) -> None:
    ledger = opened(address, members=2)
    source, other, target = (tmp_path / f"{name}.npy" for name in ("in", "other", "out"))
    np.save(source, values(0))
    np.save(other, values(1))
    first = release_file(source, target, MECHANISM, ledger=ledger)
    before, output = ledger.read_entries(), target.read_bytes()
    again = release_file(source, target, MECHANISM, ledger=ledger)
    assert again.receipt == first.receipt and ledger.read_entries() == before
    with pytest.raises(FileExistsError, match="from another file"):
        release_file(other, target, MECHANISM, ledger=ledger)
    elsewhere = opened(str(tmp_path / "elsewhere.db"))
    with pytest.raises(FileExistsError, match="outside this ledger"):
        release_file(source, target, MECHANISM, ledger=elsewhere)
    assert ledger.read_entries() == before and kinds(elsewhere) == ["open", "add"]
    assert target.read_bytes() == output
    release_file(source, target, MECHANISM, ledger=ledger, options=AGAIN)
    assert kinds(ledger)[-2:] == ["reserve", "settle"] and target.read_bytes() != output


@pytest.mark.parametrize("choice", [IfExists.REFUSE, IfExists.RESUME])
def test_an_output_from_outside_is_refused(choice: IfExists, tmp_path: Path) -> None:
    ledger, source, target = opened(str(tmp_path / "b.db")), tmp_path / "in.npy", tmp_path / "o.npy"
    np.save(source, values(0))
    release_file(source, target, MECHANISM)
    with pytest.raises(FileExistsError, match="outside this ledger"):
        release_file(
            source, target, MECHANISM, ledger=ledger, options=FileSettings(if_standing=choice)
        )
    assert kinds(ledger) == ["open", "add"]


def test_the_commands_tell_the_whole_story(command: Any, address: str, tmp_path: Path) -> None:
    source, folder = tmp_path / "in.npy", tmp_path / "published"
    np.save(source, values(0))
    folder.mkdir()

    def ledger(words: str, *more: object) -> Any:
        return command("ledger", *words.split(), *more, "--ledger", address)

    cap = f"--epsilon {affords(3)!r} --delta {DELTA} --unit frame"
    assert "Opened ward" in ledger(f"open ward {cap}").out
    assert "In ward: 1 file." in ledger("add ward", source).out
    shown = ledger("show").out
    assert "100.0 % left" in shown and "like the last one" not in shown
    flags = [*FLAGS.split(), "--ledger", address]
    for place in range(2):
        assert command("release", source, folder / f"{place}.npy", *flags).code == 0
    again = command("release", source, folder / "1.npy", *flags, "--json")
    assert again.json["already_done"] is True
    shown = ledger("show ward").out
    assert "about 1 more releases like the last one" in shown
    assert "had the list been fixed in advance: epsilon" in shown
    history = ledger("history --json").json["entries"]
    assert [e["kind"] for e in history] == ["open", "add", *["reserve", "settle"] * 2]
    assert "gaussian_noise charged to ward/" in ledger("history").out
    whole = {"entries": 6, "receipts": 2, "charged": 2, "ok": True, "clock_accepted": []}
    assert ledger("verify --json", "--receipts", folder).json == whole | {"balance": 0}
    assert ledger("export", tmp_path / "all.json").code == 0
    assert json.loads((tmp_path / "all.json").read_text()) == history


def test_a_spend_that_does_not_fit_says_what_would(command: Any, tmp_path: Path) -> None:
    source, target, address = tmp_path / "in.npy", tmp_path / "out.npy", str(tmp_path / "b.db")
    np.save(source, values(0))
    ledger = opened(address, count=0)
    flags = f"--mechanism gaussian_noise --delta {DELTA} --unit frame --low 0 --high 9"
    words = ["release", source, target, *flags.split(), "--ledger", address]
    refused = command(*words, "--epsilon", 1)
    assert refused.code == 3 and "100.0 % of its budget left" in refused.err
    assert not target.exists() and kinds(ledger) == ["open", "add"]
    [fits] = re.findall(r"at most epsilon ([\d.]+) at delta 1e-05 would fit", refused.err)
    assert command(*words, "--epsilon", float(fits) + 2e-4).code == 3
    assert command(*words, "--epsilon", fits).code == 0
    last = command(*words, "--overwrite", "--epsilon", fits, "--json")
    assert last.code == 3 and json.loads(last.err)["exit_code"] == 3
    assert "Nothing was spent" in last.err and kinds(ledger)[-1] == "settle"
    assert target.exists(), "a refusal leaves the old output alone"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("open ward --epsilon 8 --delta 1e-5 --unit frame", "such an account is open"),
        ("open new --epsilon 8 --delta 1e-5", "what is protected"),
        ("open new --epsilon nan --delta 1e-5 --unit frame", "epsilon=nan"),
        ("open new --epsilon 8 --delta 1 --unit frame", "strictly between 0 and 1"),
        ("open new --epsilon 8 --delta 1e-5 --unit face", "Unknown unit 'face'"),
        ("open new --epsilon 8 --delta 1e-5 --unit tube", "--unit tube needs --pixels N"),
        ("open new --epsilon 8 --delta 1e-5 --unit frame --relation add_remove", "relation"),
        ("open new --epsilon 1e-7 --delta 1e-9 --unit frame --filter renyi", "affords anything"),
        ("add wrad in.npy", "Unknown account 'wrad'"),
        ("add ward in.npy --subject ann", "Expected a subject exactly where"),
        ("add people in.npy", "Expected a subject exactly where"),
        ("add ward", "Expected FILES as well"),
        ("show wrad", "did you mean ward?"),
        ("close ward", "Unknown ledger command 'close'"),
    ],
)
def test_wrong_use_exits_with_two_and_writes_nothing(
    line: str, message: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", values(0))
    ledger = opened("budget.db", members=0)
    ledger.open_account("people", SUBJECT, epsilon=8, delta=DELTA)
    done = command("ledger", *line.split(), "--ledger", "budget.db")
    assert done.code == 2 and message in " ".join(done.err.replace("│", " ").split())
    assert kinds(ledger) == ["open", "open"]


def test_rehearsals_and_strangers_are_refused_by_command(command: Any, tmp_path: Path) -> None:
    source, target, address = tmp_path / "in.npy", tmp_path / "out.npy", str(tmp_path / "b.db")
    np.save(source, values(5))
    words = ["release", source, target, *FLAGS.split(), "--ledger", address]
    assert command(*words).code == 4, "no ledger is there"
    assert not Path(address).exists()
    ledger = opened(address)
    stranger = command(*words)
    assert stranger.code == 4 and "masquerade ledger add" in stranger.err
    rehearsal = command(*words, "--rehearsal-seed", 1)
    assert rehearsal.code == 2 and "live noise" in rehearsal.err
    assert kinds(ledger) == ["open", "add"]
    assert not list(tmp_path.glob("out*"))
