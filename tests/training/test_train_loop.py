"""The loop learns, stops and goes on again; nothing but the weights leaves it."""

from __future__ import annotations

import hashlib
import io
import math
import os
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from masquerade.errors import BadInput
from masquerade.noise import Noise
from masquerade.training import loop
from masquerade.training.loop import Workload
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

UNITS, CLASSES, WIDTH = 300, 4, 6


def method(epsilon: float = 8.0, **fields: Any) -> DpSgd:
    known = {"unit": "video", "batch": 60, "epochs": 6.0, "learning_rate": 1.0}
    return DpSgd(epsilon=epsilon, **(known | fields))


@cache
def plan_of(epsilon: float) -> TrainingPlan:
    return method(epsilon).plan_run(UNITS)


def short(steps: int = 20, *, noise_multiplier: float = 1.0) -> TrainingPlan:
    """A plan of few steps, uncalibrated."""
    sampler = PoissonSampling(units=UNITS, expected=60)
    return TrainingPlan(
        sampler=sampler, steps=steps, clip_norm=1.0, noise_multiplier=noise_multiplier, delta=1e-5
    )


def rows(seed: int = 0) -> Rows:
    """Four clouds of points, one a class."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, CLASSES, UNITS)
    middles = np.random.default_rng(99).normal(size=(CLASSES, WIDTH)) * 1.5
    inputs = middles[targets] + rng.normal(size=(UNITS, WIDTH)) * 0.6
    return Rows(
        private=torch.tensor(inputs, dtype=torch.float32),
        public=None,
        targets=torch.tensor(targets),
        slots=np.arange(UNITS)[:, None],
    )


def tail(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(WIDTH, CLASSES)


def run(
    net: Any, plan: TrainingPlan, how: DpSgd | None = None, **fields: Any
) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    known = {"noise": Noise(), "work": Workload(physical=100)}
    loop.run_training(
        net,
        fields.pop("rows", None) or rows(),
        how or method(),
        plan,
        progress=fields.pop("progress", lambda *step: told.append(step)),
        **(known | fields),
    )
    return told


def accuracy(net: Any) -> float:
    other = rows(seed=5)
    return float((net(other.private).argmax(dim=1) == other.targets).float().mean())


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_toy_task_is_learned_without_privacy(optimiser: Any) -> None:
    how, net = method(math.inf, optimiser=optimiser), tail()
    told = run(net, how.plan_run(UNITS), how)
    assert told == [(number + 1, 30) for number in range(30)]
    assert accuracy(net) > 0.9


def test_a_toy_task_is_learned_at_epsilon_8_and_not_at_a_hundredth() -> None:
    scores = {}
    for epsilon in (8.0, 0.01):
        nets = [tail(seed) for seed in range(6)]
        for net in nets:
            run(net, plan_of(epsilon), method(epsilon))
        scores[epsilon] = float(np.mean([accuracy(net) for net in nets]))
    assert scores[8.0] > 0.9
    assert scores[0.01] < 0.7, "chance is 0.25; one run in many is lucky"


def test_weights_that_are_not_trained_stay() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 5), torch.nn.Linear(5, CLASSES))
    net[0].requires_grad_(False)
    before = net[0].weight.clone(), net[1].weight.clone()
    run(net, short(3))
    assert torch.equal(net[0].weight, before[0]) and not torch.equal(net[1].weight, before[1])
    with pytest.raises(ValueError, match="Expected weights to train"):
        run(net.requires_grad_(False), short(3))


def test_a_plan_for_other_units_is_refused() -> None:
    other = TrainingPlan(
        sampler=PoissonSampling(units=9, expected=3),
        steps=2,
        clip_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    with pytest.raises(ValueError, match="a plan for 300 units, got one for 9"):
        run(tail(), other)


def test_the_learning_rate_rises_in_a_line_and_falls_along_a_cosine() -> None:
    how = method(learning_rate=0.8, warmup=0.2)
    rates = [loop.rate_at(how, number, 50) for number in range(50)]
    assert rates[:10] == pytest.approx([0.08 * (number + 1) for number in range(10)])
    assert rates[10] == 0.8 and (np.diff(rates[10:]) < 0).all() and 0 < rates[-1] < 0.01
    assert rates[30] == pytest.approx(0.4)
    assert loop.rate_at(method(warmup=0.0), 0, 1) == 1.0
    # the first step goes as far as its rate, times the clipped mean
    moved = []
    for rate in (1.0, 0.01):
        net, plan = tail(), short(1, noise_multiplier=0.0)
        before = net.weight.detach().clone()
        run(net, plan, method(math.inf, learning_rate=rate), noise=Noise(seed=3))
        moved.append(float((net.weight.detach() - before).norm()))
    assert 0 < moved[0] < 2 and moved[1] == pytest.approx(0.01 * moved[0], rel=1e-4)


class Stop(Exception):
    pass


def stop_after(steps: int) -> Any:
    def progress(done: int, _: int) -> None:
        if done == steps:
            raise Stop

    return progress


def test_a_class_counts_as_much_as_its_weight() -> None:
    net, data = tail(), rows()
    weights = {name: value.detach() for name, value in net.named_parameters()}
    plain = loop._make_loss(net, method(), data)
    heavy = loop._make_loss(net, method(class_weights=(1.0, 3.0, 0.5, 1.0)), data)
    for target, factor in enumerate((1.0, 3.0, 0.5, 1.0)):
        wanted = torch.tensor([target]), torch.ones(1)
        ratio = heavy(weights, data.private[:1], wanted) / plain(weights, data.private[:1], wanted)
        assert float(ratio) == pytest.approx(factor)


@pytest.mark.parametrize("count", [2, 5])
def test_class_weights_for_another_number_of_classes_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"class_weights for 4 classes, got {count}"):
        run(tail(), short(2), method(class_weights=(1.0,) * count))


def test_nothing_is_said_about_private_records(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(0):
        told = run(tail(), short(4), work=Workload(checkpoint=tmp_path / "c", every=2))
    out, err = capfd.readouterr()
    assert out == err == "" and not caplog.records
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)], "steps, and no loss"


KILLED = """
import os, signal, sys
sys.path[:0] = {tests!r}
from pathlib import Path
import test_train_loop as t

def progress(done, total):
    print(done, flush=True)
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)

t.run(t.tail(), t.short(), progress=progress, work=t.Workload(checkpoint=Path({path!r}), every=3))
"""


def held_in(path: Path) -> Any:
    """What a checkpoint says, after the 32 bytes that vouch for it."""
    data = path.read_bytes()
    assert hashlib.sha256(data[32:]).digest() == data[:32]
    return torch.load(io.BytesIO(data[32:]), weights_only=True)


def test_a_killed_run_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    code = KILLED.format(tests=[str(each) for each in Path(__file__).parents[:2]], path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == -9, done.stderr
    assert done.stdout.split()[-1] == "8"
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]
    state = held_in(path)
    assert state["done"] == 6
    net = tail(seed=2)
    told = run(net, short(), work=Workload(physical=100, checkpoint=path, every=3))
    assert told == [(number, 20) for number in range(7, 21)]
    assert held_in(path)["done"] == 18
    assert accuracy(net) > 0.5


def saved(path: Path, net: Any = None) -> Path:
    work = Workload(checkpoint=path, every=6)
    with pytest.raises(Stop):
        run(net or tail(), short(), work=work, progress=stop_after(7))
    return path


def test_a_checkpoint_holds_no_random_state_and_noise_is_drawn_anew(tmp_path: Path) -> None:
    path, plan = tmp_path / "c", short(7, noise_multiplier=30.0)
    with pytest.raises(Stop):
        run(tail(), plan, work=Workload(checkpoint=path, every=6), progress=stop_after(7))
    state = held_in(path)
    assert set(state) == {"run", "done", "weights", "optimiser"} and state["done"] == 6
    assert set(state["weights"]) == {"weight", "bias"}
    assert not any(word in path.read_bytes().lower() for word in (b"rng", b"random", b"chacha"))
    ends = []
    for _ in range(40):
        net = tail()
        run(net, plan, work=Workload(checkpoint=path, every=6))
        ends.append(torch.cat([value.detach().flatten() for value in net.parameters()]).numpy())
    apart = np.array(ends[::2]) - np.array(ends[1::2])
    last = loop.rate_at(method(), 6, 7) * 30.0 / 60
    spread = float(((apart / last) ** 2).sum() / 2)
    assert 1e-6 < chi2.sf(spread, apart.size) < 1 - 1e-6, "the full noise each time, and a new one"


def test_a_checkpoint_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = saved(tmp_path / "c")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("what", ["epsilon", "seed", "clip_norm", "steps", "noise"])
def test_another_runs_checkpoint_is_refused(what: str, tmp_path: Path) -> None:
    path, how, plan = saved(tmp_path / "c"), method(), short()
    if what == "epsilon":
        how = method(4.0)
    elif what == "seed":
        how = method(public_seed=3)
    elif what == "clip_norm":
        how = method(clip_norm=0.5)
    else:
        plan = short(21) if what == "steps" else short(noise_multiplier=1.0001)
    net = tail(seed=3)
    before = net.weight.detach().clone()
    with pytest.raises(BadInput, match="checkpoint of this very run"):
        run(net, plan, how, work=Workload(checkpoint=path))
    assert torch.equal(net.weight, before)


def networks() -> dict[str, Any]:
    return {
        "fewer weights": torch.nn.Linear(WIDTH, CLASSES, bias=False),
        "other names": torch.nn.Sequential(tail()),
        "other shapes": torch.nn.Linear(WIDTH, CLASSES + 1),
        "another frozen part": deep(seed=8),
    }


def deep(seed: int) -> Any:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 5), torch.nn.Linear(5, CLASSES))
    net[0].requires_grad_(False)
    return net


@pytest.mark.parametrize("which", networks())
def test_the_checkpoint_of_another_network_is_refused(which: str, tmp_path: Path) -> None:
    first = deep(seed=7) if which == "another frozen part" else tail()
    path = saved(tmp_path / "c", net=first)
    with pytest.raises(BadInput, match="another run"):
        run(networks()[which], short(), work=Workload(checkpoint=path))


DAMAGED = r"Expected a whole checkpoint in .*, got a damaged one; delete it\."


@pytest.mark.parametrize("how", ["cut", "empty", "text", "other", "pickle"])
def test_a_damaged_checkpoint_is_refused(how: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "c")
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif how in ("empty", "text"):
        path.write_bytes(b"" if how == "empty" else b"hello" * 50)
    else:
        torch.save({"weights": 1} if how == "other" else method(), path)
    with pytest.raises(BadInput, match=DAMAGED):
        run(tail(), short(), work=Workload(checkpoint=path))


def test_a_checkpoint_with_one_bit_turned_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "c")
    held = held_in(path)["weights"]["weight"].numpy().tobytes()
    data = bytearray(path.read_bytes())
    data[data.index(held) + 3] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(BadInput, match=DAMAGED):
        run(tail(), short(), work=Workload(checkpoint=path))


def test_work_that_cannot_be_done_is_refused() -> None:
    for field in ("physical", "every"):
        with pytest.raises(ValueError, match=field):
            Workload(**{field: 0})
