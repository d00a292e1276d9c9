"""What every network that can be trained must keep, found by its file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PUBLIC
from masquerade import catalog, joints
from masquerade.collection import Medium
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import MvitSmall, MvitV1B, Network, find_network_class
from masquerade.training import learner

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

LARGE = ("mvit_v1_b", "mvit_v2_s", "tiny_vit_5m", "tiny_vit_11m", "tiny_vit_21m")
SMALL = [name for name in catalog.list_entries("networks") if name not in LARGE]
each = pytest.mark.parametrize("name", catalog.list_entries("networks"))
each_small = pytest.mark.parametrize("name", SMALL)  # the others take long


def made(name: str, seed: int = 0) -> tuple[Network, Any]:
    network = catalog.make_example("networks", name)
    return network, network.make(len(outputs(network)), seed=seed, public=list(PUBLIC))


def outputs(network: Network) -> tuple[str, ...]:
    return joints.MPII if network.KIND is Medium.PHOTOS else ("a", "b", "c")


def segments_for(network: Network, count: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    if network.KIND is Medium.VIDEOS:
        return rng.integers(0, 256, (count, network.length, 64, 64, 3), np.uint8)
    if network.KIND is Medium.PHOTOS:
        return rng.integers(0, 256, (count, 64, 48, 3), np.uint8)
    return rng.uniform(-1, 1, (count, network.length, 2)).astype(np.float32)


@each
def test_a_network_is_a_frozen_dataclass_named_by_its_file(name: str) -> None:
    network = catalog.make_example("networks", name)
    assert isinstance(network, Network) and network.name == name == network.file_fields["network"]
    assert find_network_class(name) is type(network) and dataclasses.is_dataclass(network)
    assert network.KIND in Medium and network.length > 0 and network.IN_WORDS
    with pytest.raises(ValueError, match="Unknown network 'mvit_tall'"):
        find_network_class("mvit_tall")


@each_small
@pytest.mark.parametrize("part", ["head", "all"])
def test_trunk_and_tail_are_the_network(name: str, part: str) -> None:
    network, net = made(name)
    inputs = network.prepare(segments_for(network))
    with torch.no_grad():
        whole = net(inputs)
        trunk, tail = network.split(net, part)
        assert torch.equal(tail(trunk(inputs)), whole)
        assert whole.shape[:2] == (2, len(outputs(network)))
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
    path.write_bytes(learner.encode_model(net, network, outputs(network), {"learned": {}}))
    found = learner.load_model(path)
    assert found.classes == outputs(network) and not found.net.training
    assert found.network.name == name and found.network.file_fields == network.file_fields
    inputs = network.prepare(segments_for(network))
    with torch.no_grad():
        assert torch.equal(found.net(inputs), net.eval()(inputs))


def test_a_model_is_read_with_its_own_fields_and_not_those_of_the_example(tmp_path: Path) -> None:
    network = LstmNetwork(window=24, hidden=8)
    assert network.length != catalog.make_example("networks", "lstm").length
    net = network.make(3, seed=0, public=list(PUBLIC))
    path = tmp_path / "m.safetensors"
    path.write_bytes(learner.encode_model(net, network, ("a", "b", "c"), {}))
    assert learner.load_model(path).network == network


def test_weights_of_a_large_network_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"Expected --weights FILE .* of mvit_v1_b .*got neither"):
        MvitV1B().make(3, seed=0)
    with pytest.raises(ValueError, match="Expected weights or from_scratch, got both"):
        MvitSmall(weights=Path("w"), from_scratch=True)
    assert not MvitSmall().make(3, seed=0).head[1].weight.any(), "a head of zeros"
    kept = MvitSmall(from_scratch=True, keep_head=True).make(3, seed=0)
    assert kept.head[1].weight.any()
