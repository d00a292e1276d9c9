"""DP-SGD on worn sensors: whose rows are whose, what one person can add, and what is learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from few_films import Few
from few_signals import PRIVATE, PUBLIC, FewSignals, wears
from masquerade.errors import BadInput
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import compute_channel_scales
from masquerade.noise import Noise
from masquerade.publish.evaluation import measure_accuracy
from masquerade.publish.models import make_method
from masquerade.publish.receipts import check_receipt
from masquerade.recordings import Signal
from masquerade.training import gradients, learner, loop
from masquerade.training.learner import ComputeSettings, MemorySettings, load_model
from masquerade.training.loop import Workload
from masquerade.training.partition import Stretch, windows_of
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows, gather_rows
from masquerade.training.worn import choose_windows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

LSTM, KNOWN = LstmNetwork(window=20, hidden=4), list(PUBLIC)
TINY: dict[str, Any] = {"epsilon": math.inf, "unit": "subject", "part": "all", "segments": 3}
TINY |= {"batch": 4, "epochs": 2.0}


def spoiled(signal: Signal, number: float) -> Signal:
    """A signal of that number; what a `Signal` refuses is put into it afterwards."""
    found = replace(signal, values=signal.values.copy())
    found.values[:] = number
    return found


HARMS: dict[str, Callable[[Signal], Signal]] = {
    "nan": lambda signal: spoiled(signal, math.nan),
    "inf": lambda signal: spoiled(signal, math.inf),
    "huge": lambda signal: spoiled(signal, 1e30),
    "garbage": lambda signal: replace(
        signal, values=-7 * signal.values[::-1], activity=np.flip(signal.activity)
    ),
    "unlabelled": lambda signal: replace(signal, activity=np.full(240, -1)),
    "other classes": lambda signal: replace(signal, activity=np.repeat([3, 2**40], 120)),
    "short": lambda signal: replace(signal, values=signal.values[:19], activity=np.arange(19) * 0),
}
NARROW = {"values": np.zeros((240, 1), np.float32), "channels": ("x",)}
EMPTY = ("unlabelled", "other classes", "short")


@dataclass(frozen=True, kw_only=True)
class Harmed(FewSignals):
    """Few signals, of which those named by person or by recording are not what they were."""

    who: str = ""
    harm: Any = None

    def _load(self, index: int) -> Signal:
        signal, name = super()._load(index), self.labels[index].name
        return self.harm(signal) if self.who and name.startswith(self.who) else signal


def method(**fields: Any) -> Any:
    return make_method("dp_sgd", **(TINY | fields))


def trains(path: Path, data: Any = PRIVATE, network: Any = LSTM, **other: Any) -> Any:
    names = ("noise", "ways", "progress", "public")
    given = {"public": KNOWN} | {name: other.pop(name) for name in names if name in other}
    how = make_method(other.pop("name", "dp_sgd"), **(TINY | other))
    return wears(path, how, private=data, network=network, **given)


def rows_of(data: Any = PRIVATE, **fields: Any) -> Any:
    with learner.read_recordings(data, method(**fields), LSTM, public=KNOWN) as reading:
        return reading.tail, reading.rows


def planned(units: int, clip_norm: float = 1.0) -> TrainingPlan:
    sampler = PoissonSampling(units=units, expected=units)
    return TrainingPlan(
        sampler=sampler, steps=1, clip_norm=clip_norm, noise_multiplier=1.0, delta=1e-5
    )


def gradients_of(tail: Any, rows: Rows) -> dict[str, Any]:
    """Of all units, together in one batch."""
    weights = {name: held.detach() for name, held in tail.named_parameters()}
    inputs, targets, shares = gather_rows(rows, np.arange(rows.num_units))
    loss = loop._make_loss(tail, method(), rows)
    return gradients.per_record(loss, weights, inputs, (targets, shares), chunk=rows.num_units)


def norm(tail: Any, rows: Rows, unit: int, clip_norm: float) -> Fraction:
    """The squared norm, exactly, of what one unit adds to a sum."""
    plan, loss = planned(rows.num_units, clip_norm), loop._make_loss(tail, method(), rows)
    weights = {name: held.detach() for name, held in tail.named_parameters()}
    work = Workload(physical=2)
    cells = loop._private_sum(loss, weights, rows, plan, work).sum_cells(np.array([unit]))
    whole = sum(int(c) ** 2 for one in cells.values() for c in one.flatten().tolist())
    return Fraction(plan.grid) ** 2 * whole


@pytest.mark.parametrize("unit", ["subject", "video"])
@pytest.mark.parametrize("name", ["dp_sgd", "multi_clip"])
def test_a_model_is_trained_published_and_read_again(unit: str, name: str, tmp_path: Path) -> None:
    data = FewSignals(records=2)
    done = trains(tmp_path / "m.safetensors", data, name=name, epsilon=2.0, unit=unit)
    assert check_receipt(done.value) == done.receipt
    assert done.receipt.shapes == (({"subject": 6, "video": 12}[unit],),)
    assert done.receipt.guarantee.epsilon <= 2 and done.receipt.guarantee.unit.name == unit
    net, network, activities, _ = load_model(done.value)
    assert (network.name, network.length, net.rate_hz) == ("lstm", 20, 20.0)
    assert activities == data.activities and net.lstm.hidden_size == 4
    assert 0 <= measure_accuracy(net, network, data).top_1 <= 1


def test_a_model_without_noise_learns_what_people_do() -> None:
    how = method(segments=12, epochs=30.0, batch=3, optimiser="adam", learning_rate=0.05)
    network = replace(LSTM, hidden=8)
    with learner.read_recordings(PRIVATE, how, network, public=KNOWN) as reading:
        net = reading.learn(Noise(seed=1))
    assert reading.plan.steps == 60
    assert measure_accuracy(net, network, FewSignals(subjects=tuple("uvw"))).top_1 > 0.8


@pytest.mark.parametrize("part", ["head", "all"])
def test_the_head_alone_leaves_the_lstm_as_it_began(part: str, tmp_path: Path) -> None:
    net = load_model(trains(tmp_path / "m.safetensors", part=part).value).net
    first, last = LSTM.make(3, seed=0, public=KNOWN).state_dict(), net.state_dict()
    changed = {name for name in first if not torch.equal(first[name], last[name])}
    assert {name.split(".")[0] for name in changed} == {"head", "lstm" if part == "all" else "head"}
    other = LSTM.make(3, seed=1, public=KNOWN).state_dict()
    assert not torch.equal(first["lstm.weight_hh_l0"], other["lstm.weight_hh_l0"])


def test_a_head_learns_the_same_from_what_the_frozen_lstm_gave_before() -> None:
    slow = gradients_of(*rows_of(part="all"))
    tail, rows = rows_of(part="head")
    assert rows.private.shape == (18, 4)
    for name, value in gradients_of(tail, rows).items():
        assert torch.allclose(value, slow[f"head.{name}"], atol=1e-6) and value.abs().max() > 0.01


@pytest.mark.parametrize("part", ["all", "head"])
@pytest.mark.parametrize("harm", HARMS)
def test_nobodys_data_can_stop_a_run(harm: str, part: str, tmp_path: Path) -> None:
    data = Harmed(who="c", harm=HARMS[harm])
    done = trains(tmp_path / "m.safetensors", data, part=part, batch=6, noise=Noise(seed=1))
    assert done.receipt.shapes == ((6,),), "still a unit"
    state = load_model(done.value)[0].state_dict()
    assert all(bool(torch.isfinite(value).all()) for value in state.values())


def drawn(seed: int) -> Callable[[Signal], Signal]:
    """Something else of some other length."""

    def harm(signal: Signal) -> Signal:
        rng = np.random.default_rng(seed)
        length = int(rng.integers(1, 300))
        values = rng.uniform(-9, 9, (length, 2)).astype(np.float32)
        return replace(signal, values=values, activity=rng.integers(-1, 2, 9).repeat(34)[:length])

    return harm


@settings(max_examples=40)
@given(
    st.sampled_from(["a", "a0", "b0", "c", "c1", "f"]),
    st.one_of(st.sampled_from([*HARMS.values()]), st.integers(0, 99).map(drawn)),
    st.sampled_from(["subject", "video"]),
    st.sampled_from(["all", "head"]),
)
def test_changing_one_person_changes_no_other_units_rows_or_gradients(
    who: str, harm: Callable[[Signal], Signal], unit: str, part: str
) -> None:
    same, other = FewSignals(records=2), Harmed(records=2, who=who, harm=harm)
    (tail, before), (_, after) = (rows_of(data, unit=unit, part=part) for data in (same, other))
    units = [labels.name if unit == "video" else str(labels.subject) for labels in same.labels]
    units = list(dict.fromkeys(units))
    assert before.num_units == after.num_units == len(units)
    others = [n for n, name in enumerate(units) if not name.startswith(who[: len(name)])]
    assert others and len(others) < len(units)
    batch = np.arange(len(units))
    for one, two in zip(gather_rows(before, batch), gather_rows(after, batch), strict=True):
        assert torch.equal(one[others], two[others])
    found = gradients_of(tail, before), gradients_of(tail, after)
    for name, one in found[0].items():
        assert torch.equal(one[others], found[1][name][others]) and one[others].isfinite().all()
    rest = [n for n in range(len(units)) if n not in others]
    assert not all(torch.equal(one[rest], found[1][name][rest]) for name, one in found[0].items())


@pytest.mark.parametrize("part", ["all", "head"])
@pytest.mark.parametrize("harm", HARMS)
def test_one_person_adds_no_more_than_the_bound(harm: str, part: str) -> None:
    tail, rows = rows_of(Harmed(who="c", harm=HARMS[harm]), part=part)
    for bound in (0.01, 1.0):
        sizes = [norm(tail, rows, unit, bound) for unit in range(6)]
        assert max(sizes) <= Fraction(bound) ** 2
        assert bool(sizes[2]) == (harm in ("huge", "garbage")), "or exactly nothing"
    assert min(norm(tail, rows, unit, 0.01) for unit in (0, 1)) > Fraction(99, 10**4) ** 2


@pytest.mark.parametrize("harm", EMPTY)
def test_for_whoever_has_no_window_no_stranger_is_seen(harm: str) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Two(FewSignals):
        def _load(self, index: int) -> Signal:
            signal = super()._load(index)
            if index not in (0, 3):
                return signal
            return HARMS["nan" if index == 0 else harm](signal)

    _, rows = rows_of(Two())
    assert (rows.slots[3] == -1).all() and rows.slots[0, :3].tolist() == [0, 1, 2]
    inputs, targets, shares = gather_rows(rows, np.array([3, -1, 0]))
    assert not inputs[:2].any() and not shares[:2].any() and not targets[:2].any()
    assert inputs[2].isnan().all() and shares[2].sum() == pytest.approx(1)


def test_rows_fill_up_with_a_persons_own_where_the_first_recording_has_none() -> None:
    _, rows = rows_of(Harmed(records=2, who="b0", harm=HARMS["short"]))
    assert rows.slots[1, :6].tolist() == [-1, -1, -1, 9, 10, 11]
    inputs, _, shares = gather_rows(rows, np.array([1]))
    assert shares[0, :6].tolist() == pytest.approx([0] * 3 + [1 / 3] * 3)
    assert all(torch.equal(inputs[0, place], rows.private[9]) for place in range(4))


def test_no_more_recordings_of_a_person_are_used_than_the_cap() -> None:
    data = FewSignals(records=3)
    tail, before = rows_of(data, recordings=2)
    assert before.slots.shape == (6, 6) and before.slots[0].max() == 5
    _, after = rows_of(Harmed(records=3, who="e2", harm=HARMS["garbage"]), recordings=2)
    _, seen = rows_of(Harmed(records=3, who="e1", harm=HARMS["garbage"]), recordings=2)
    found = [gradients_of(tail, rows)["head.weight"][4] for rows in (before, after, seen)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize(("most", "places"), [(1, [7]), (3, [2, 7, 12]), (15, range(15))])
def test_windows_are_spread_evenly_over_those_with_a_class(most: int, places: Any) -> None:
    signal = replace(PRIVATE[0], activity=np.repeat([0, -1, 1, 2], [80, 60, 60, 40]))
    whole = [Stretch(0, 0, 240)]
    every, labels = windows_of([signal], whole, window=20, step=10, classes=3)
    assert len(labels) == 15
    values, classes = choose_windows(signal, window=20, most=most, classes=3)
    assert np.array_equal(values, every[list(places)])
    assert np.array_equal(classes, labels[list(places)])
    values, classes = choose_windows(signal, window=20, most=20, classes=3)
    assert np.array_equal(values[:15], every) and not values[15:].any()
    assert classes.tolist() == [*labels.tolist(), *[-1] * 5]
    assert choose_windows(signal, window=20, most=20, classes=1)[1].max() == 0, (
        "others are not learned"
    )


def test_channels_are_normalised_by_public_signals_alone(tmp_path: Path) -> None:
    mean, scale = compute_channel_scales([signal.values for signal in PUBLIC])
    loud = Harmed(who="a", harm=HARMS["huge"])
    for number, data in enumerate((PRIVATE, loud)):
        net = load_model(trains(tmp_path / f"{number}.safetensors", data).value).net
        assert torch.equal(net.mean, torch.from_numpy(mean)) and net.mean.abs().max() > 1
        assert torch.equal(net.scale, torch.from_numpy(scale))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Few(), "signals to learn from, got Videos"),
        (FewSignals(subjects=()), "at least one recording to learn from"),
        (FewSignals(classes=("sit",)), "at least two activities to learn, got sit;"),
        (FewSignals(odd={"rate_hz": 10.0}), "one rate, got 20 and 10 Hz"),
        (FewSignals(odd={"channels": ("x", "z")}), "the same channels"),
        (FewSignals(odd={"activity": None}), "labelled signals to learn from"),
        (FewSignals(odd={"subject": None}), "who is in a0 for --unit subject, got nobody"),
        (FewSignals(subjects=tuple("abx")), "of other people, got 1 who are in both"),
    ],
)
def test_private_signals_that_do_not_fit_are_refused(
    data: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        trains(tmp_path / "m.safetensors", data)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("public", "message"),
    [
        ([], "at least one recording, got none"),
        (FewSignals(subjects=("x",), length=19), "at least 20 samples, a window, got 19"),
        (FewSignals(subjects=("x", "y"), odd={"rate_hz": 10.0}), "one rate"),
        (FewSignals(subjects=("x", "y"), odd=NARROW), "the same channels"),
        (Few(), "signals to learn from, got Videos"),
    ],
)
def test_public_signals_that_do_not_fit_are_refused(
    public: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        trains(tmp_path / "m.safetensors", public=public)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "mask_dp"}, "without a public part for worn sensors, got mask_dp; use dp_sgd"),
        ({"name": "public_part"}, "got public_part; use dp_sgd"),
        ({"part": "norms"}, "part all or head with an LSTM, which has no norms, got part=norms"),
        ({"part": "last_norms"}, "got part=last_norms; use part=all"),
        (
            {"ways": ComputeSettings(work=Workload(precision="bfloat16"))},
            "precision=float32 with an LSTM",
        ),
        ({"class_weights": (1.0, 1.0)}, "class_weights for 3 classes, got 2"),
        ({"worn": "window"}, "window to be a whole number"),
        ({"worn": "hidden"}, "hidden to be a whole number"),
    ],
)
def test_what_an_lstm_cannot_be_trained_by_is_refused_before_anything_is_read(
    fields: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewSignals, "_load", None)
    with pytest.raises(ValueError, match=message):
        bad = {fields["worn"]: 0} if "worn" in fields else {}
        network = LstmNetwork(**({"window": 20, "hidden": 4} | bad))
        trains(tmp_path / "m.safetensors", network=network, public=PUBLIC, **fields)
    assert not list(tmp_path.iterdir())


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    told: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        if what == "training" and done == 4:
            raise KeyboardInterrupt

    def tell(what: str, done: int, total: int) -> None:
        told.extend([done] if what == "training" else [])

    ways = ComputeSettings(work=Workload(checkpoint=tmp_path / "c", every=3))
    words: dict[str, Any] = {"epsilon": 4.0, "epochs": 6.0, "ways": ways}
    with pytest.raises(KeyboardInterrupt, match="no model was written"):
        trains(tmp_path / "m.safetensors", progress=stop, **words)
    with pytest.raises(BadInput, match="another run's"):
        trains(tmp_path / "m.safetensors", network=replace(LSTM, hidden=5), **words)
    with pytest.raises(BadInput, match="another run's"):
        trains(tmp_path / "m.safetensors", network=replace(LSTM, window=21), **words)
    done = trains(tmp_path / "m.safetensors", progress=tell, **words)
    assert told == [4, 5, 6, 7, 8, 9] and "9 steps" in done.receipt.guarantee.assumed_public[0]


def test_a_checkpoint_of_a_head_is_not_taken_behind_another_lstm(tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if what == "training" and done == 2:
            raise KeyboardInterrupt

    words = {
        "part": "head",
        "ways": ComputeSettings(work=Workload(checkpoint=tmp_path / "c", every=1)),
    }
    with pytest.raises(KeyboardInterrupt):
        trains(tmp_path / "m.safetensors", progress=stop, **words)
    for other in ({"network": replace(LSTM, window=21)}, {"public": KNOWN[:2]}):
        with pytest.raises(BadInput, match="another run's"):
            trains(tmp_path / "m.safetensors", **other, **words)
    trains(tmp_path / "m.safetensors", **words)


def test_rows_on_disk_are_gone_at_the_end_and_change_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    seen: list[int] = []
    ways = ComputeSettings(memory=MemorySettings(most_mb=0, folder=folder))
    tell = {"progress": lambda *_: seen.append(len(list(folder.glob("*/*.npy"))))}
    one = trains(tmp_path / "a.safetensors", ways=ways, noise=Noise(seed=1), **tell)
    assert max(seen) == 1 and not list(folder.iterdir())
    other = trains(tmp_path / "b.safetensors", noise=Noise(seed=1))
    assert one.value.read_bytes() == other.value.read_bytes()
