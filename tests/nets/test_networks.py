"""What every network that can be trained must keep, found by its file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PUBLIC
from masquerade import catalog
from masquerade.collection import Kind
from masquerade.nets.mvit_small import MvitSmall
from masquerade.nets.mvit_v1_b import MvitV1B
from masquerade.nets.network import Network, network_class
from masquerade.train import model_file

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SMALL = [name for name in catalog.names("nets") if name not in ("mvit_v1_b", "mvit_v2_s")]
each = pytest.mark.parametrize("name", catalog.names("nets"))
each_small = pytest.mark.parametrize("name", SMALL)  # the others take long


def made(name: str, seed: int = 0) -> tuple[Network, Any]:
    network = catalog.example("nets", name)
    return network, network.make(3, seed=seed, public=list(PUBLIC))


def segments_for(network: Network, count: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    if network.KIND is Kind.VIDEOS:
        return rng.integers(0, 256, (count, network.length, 64, 64, 3), np.uint8)
    return rng.uniform(-1, 1, (count, network.length, 2)).astype(np.float32)


@each
def test_a_network_is_a_frozen_dataclass_named_by_its_file(name: str) -> None:
    network = catalog.example("nets", name)
    assert isinstance(network, Network) and network.name == name == network.said["network"]
    assert network_class(name) is type(network) and dataclasses.is_dataclass(network)
    assert network.KIND in (Kind.VIDEOS, Kind.SIGNALS) and network.length > 0 and network.IN_WORDS
    with pytest.raises(ValueError, match="Unknown network 'mvit_tall'"):
        network_class("mvit_tall")


@each_small
@pytest.mark.parametrize("part", ["head", "all"])
def test_trunk_and_tail_are_the_network(name: str, part: str) -> None:
    network, net = made(name)
    inputs = network.prepare(segments_for(network))
    with torch.no_grad():
        whole = net(inputs)
        trunk, tail = network.split(net, part)
        assert torch.equal(tail(trunk(inputs)), whole) and whole.shape == (2, 3)
    assert any(weight.requires_grad for weight in tail.parameters())


@each_small
def test_a_network_begins_by_its_seed(name: str) -> None:
    first, again, other = (made(name, seed)[1].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    if name == "lstm":
        assert not all(torch.equal(value, other[key]) for key, value in first.items())


@each_small
def test_a_models_file_gives_the_same_network_back(name: str, tmp_path: Path) -> None:
    network, net = made(name)
    path = tmp_path / "m.safetensors"
    path.write_bytes(model_file.encoded(net, network, ("a", "b", "c"), {"learned": {}}))
    found, classes = model_file.load_model(path)
    assert classes == ("a", "b", "c") and found.name == name and not found.training
    inputs = network.prepare(segments_for(network))
    with torch.no_grad():
        assert torch.equal(found(inputs), net.eval()(inputs))


def test_weights_of_a_large_network_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"Expected --weights FILE .* of mvit_v1_b .*got neither"):
        MvitV1B().make(3, seed=0)
    with pytest.raises(ValueError, match="Expected weights or from_scratch, got both"):
        MvitSmall(weights=Path("w"), from_scratch=True)
    assert not MvitSmall().make(3, seed=0).head[1].weight.any(), "a head of zeros"
    kept = MvitSmall(from_scratch=True, keep_head=True).make(3, seed=0)
    assert kept.head[1].weight.any()
