"""The loop itself refuses a network in which one record moves another's gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_films import Few
from few_signals import PRIVATE, PUBLIC, charges, enrolled
from masquerade.ledger.filter import FilterName
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import MvitSmall
from masquerade.noise import Noise
from masquerade.publish.models import make_method, train_file
from masquerade.training import learner, loop
from masquerade.training.loop import Workload
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
nn = torch.nn

FREE = make_method("dp_sgd", epsilon=math.inf, unit="video", batch=4, epochs=1.0)
MIXED = "Expected no batch statistics in training, got BatchNorm1d at"


class Centred(nn.Module):  # type: ignore[misc]
    """Takes off the mean over records, in no layer of its own, right before the head."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 6), head

    def forward(self, inputs: Any) -> Any:
        middle = self.first(inputs)
        return self.head(middle - middle.mean(dim=0))


@dataclass(frozen=True, kw_only=True)
class MixedFilms(MvitSmall):
    """A batch norm before the head."""

    name = "mvit_small"

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        trunk, tail = super().split(net, part)
        return trunk, nn.Sequential(nn.BatchNorm1d(128), tail)


@dataclass(frozen=True, kw_only=True)
class MixedWearers(LstmNetwork):
    """The same for worn sensors."""

    name = "lstm"

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        trunk, tail = super().split(net, part)
        return trunk, nn.Sequential(nn.BatchNorm1d(4), tail)


def rows(device: str = "cpu", trunk: Any = None) -> Rows:
    films = torch.rand(8, 6, generator=torch.Generator().manual_seed(1)).to(device)
    targets = torch.arange(8, device=device) % 2
    slots = np.arange(8)[:, None]
    return Rows(private=films, public=None, targets=targets, slots=slots, trunk=trunk)


def run(tail: Any, held: Rows | None = None) -> None:
    held = held or rows()
    loop.run_training(
        tail.to(held.targets.device),
        held,
        FREE,
        FREE.plan_run(8),
        noise=Noise(seed=1),
        work=Workload(),
        progress=lambda done, total: None,
    )


def test_batch_statistics_are_refused_by_the_loop_itself() -> None:
    tail = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    before = tail[0].weight.detach().clone()
    with pytest.raises(ValueError, match=f"{MIXED} '1'"):
        run(tail)
    assert torch.equal(tail[0].weight, before), "nothing was learned"
    run(tail.eval())


@pytest.mark.parametrize("is_zero", [False, True])
def test_records_that_are_mixed_outside_of_layers_are_refused(is_zero: bool) -> None:
    head = nn.Linear(6, 2)
    if is_zero:  # as networks begin: nothing shows behind it
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
    with pytest.raises(ValueError, match="got a layer that mixes them: 'what comes before head'"):
        run(Centred(head))


def test_a_frozen_trunk_that_mixes_records_is_refused() -> None:
    trunk = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).requires_grad_(False)
    with pytest.raises(ValueError, match=MIXED):
        run(nn.Linear(6, 2), rows(trunk=trunk))
    run(nn.Linear(6, 2), rows(trunk=trunk.eval()))


@pytest.mark.parametrize(
    ("data", "network", "public", "width"),
    [
        (Few(), MvitSmall(from_scratch=True), (), 128),
        (PRIVATE, LstmNetwork(window=20, hidden=4), PUBLIC, 4),
    ],
    ids=["films", "signals"],
)
def test_whatever_is_learned_from_mixed_records_are_refused(
    data: Any, network: Any, public: Any, width: int
) -> None:
    with learner.read_recordings(data, FREE, network, public=public) as reading:
        mixed = nn.Sequential(nn.BatchNorm1d(width), reading.tail)
        with pytest.raises(ValueError, match=f"{MIXED} '0'"):
            replace(reading, tail=mixed).learn(Noise())
        reading.learn(Noise())


@pytest.mark.parametrize(
    ("data", "network", "public"),
    [
        (Few(), MixedFilms(from_scratch=True), ()),
        (PRIVATE, MixedWearers(window=20, hidden=4), PUBLIC),
    ],
    ids=["films", "signals"],
)
def test_nobody_is_charged_for_a_network_that_mixes_records(
    data: Any, network: Any, public: Any, tmp_path: Path
) -> None:
    ledger = enrolled(tmp_path, data, rule=FilterName.RENYI, epsilon=20.0)
    method, given = replace(FREE, epsilon=2.0), {"public": public, "ledger": ledger}
    with pytest.raises(ValueError, match=f"{MIXED} '0'"):
        train_file(data, tmp_path / "m.safetensors", method, network, **given)
    assert not charges(ledger) and not list(tmp_path.glob("m*"))


def test_it_is_tried_once_a_run_and_touches_no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], loop.refuse_coupling
    monkeypatch.setattr(
        loop, "refuse_coupling", lambda net, some: asked.append(some) or real(net, some)
    )
    tail = nn.Sequential(nn.Linear(6, 6), nn.Dropout(1e-6), nn.Linear(6, 2)).eval()
    before = torch.get_rng_state()
    run(tail)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(asked) == 1 and asked[0].shape == (2, 6)
    held = rows().private
    assert not any(torch.equal(row, one) for row in held for one in asked[0]), "it is made up"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("part", ["head", "last_norms", "norms", "all"])
def test_a_network_for_videos_is_accepted_on_a_gpu(part: str) -> None:
    network = MvitSmall(from_scratch=True)
    method = make_method("dp_sgd", epsilon=math.inf, unit="video", part=part, batch=4, epochs=0.5)
    ways = learner.ComputeSettings(memory=learner.MemorySettings(device="cuda"))
    with learner.read_recordings(Few(), method, network, ways=ways) as reading:
        before = torch.cuda.get_rng_state()
        reading.learn(Noise())
        assert torch.equal(torch.cuda.get_rng_state(), before)
    with pytest.raises(ValueError, match=MIXED):
        run(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)), rows("cuda"))
