"""Multiscale vision transformers: built, fed, cut in two, differentiated a record at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import python
from masquerade.errors import BadInput
from masquerade.networks import mvit_layers, weight_files
from masquerade.networks.network import PARTS
from tools import pretrain, run_tool
from tools.pretrain import Pretrain

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
from safetensors.torch import load_file, save_file  # noqa: E402

CLASSES, LEARNED, RECORDS = 12, 24, 3  # LEARNED: what public people do
SMALL = (3, 16, 64, 64)
ROUNDING: Any = {"rtol": 1e-5, "atol": 1e-6}  # kernels may round by how numbers lie in memory


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(name: str = "mvit_small", classes: int = CLASSES) -> Any:
    torch.manual_seed(5)
    return mvit_layers.make_mvit(name, classes=classes)


def films(count: int = RECORDS, seed: int = 1) -> Any:
    return torch.rand(count, *SMALL, generator=torch.Generator().manual_seed(seed)) * 4 - 2


def gradients(tail: Any, trained: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    """Of one record's loss in the parameters that are trained."""
    held = {name: value.detach() for name, value in tail.named_parameters()}

    def loss(parameters: dict[str, Any], record: Any, target: Any) -> Any:
        out = torch.func.functional_call(tail, held | parameters, (record[None],))
        return torch.nn.functional.cross_entropy(out, target[None])

    wanted = {name: held[name] for name in trained}
    return lambda record, target: torch.func.grad(loss)(wanted, record, target)


def flat(found: dict[str, Any]) -> Any:
    return torch.cat([found[name].flatten() for name in sorted(found)])


def test_pretraining_needs_few_packages_and_no_cuda() -> None:
    """Without those that a machine for computing lacks, torchvision comes in all the same."""
    code = (
        "import sys\n"
        "for name in ('av', 'tyro', 'rich', 'sqlalchemy', 'cryptography', 'dp_accounting'):\n"
        "    sys.modules[name] = None\n"
        "from tools import pretrain\n"
        "from masquerade.networks import mvit_layers as mvit, weight_files as torchvision\n"
        "from masquerade.networks import without_privacy\n"
        "print(torchvision.MViT.__name__, torchvision._LIBRARY)\n"
    )
    name, library = python(code).split(maxsplit=1)
    assert name == "MViT"
    if torch.version.cuda is None:  # the plain import fails there, so the schemas were needed
        assert "Library" in library


def size_of(net: Any, *, is_trained: bool = False) -> int:
    return sum(weight.numel() for weight in net.parameters() if weight.requires_grad >= is_trained)


def test_the_small_network_is_small() -> None:
    net = made().eval()
    assert (net.name, net.head[1].out_features) == ("mvit_small", CLASSES)
    assert 500_000 <= size_of(net) == size_of(net, is_trained=True) <= 1_200_000
    assert 5 <= len(net.blocks) <= 7
    assert tuple(net.conv_proj.kernel_size) == (3, 7, 7)
    assert tuple(net.conv_proj.stride) == (2, 4, 4)
    assert net(films()).shape == (RECORDS, CLASSES)


def test_nothing_in_a_network_is_random() -> None:
    net, values = made().train(), films()
    assert torch.equal(net(values), net(values))
    assert torch.equal(net.eval()(values), net.train()(values))


@pytest.mark.parametrize("part", PARTS)
def test_trunk_and_tail_are_the_network(part: str) -> None:
    net, values = made(), films()
    with torch.no_grad():
        whole = net(values)
        trunk, tail = mvit_layers.split_mvit(net, part)
        kept = trunk(values)
        assert torch.allclose(tail(kept), whole, **ROUNDING)
        other = kept.clone(memory_format=torch.contiguous_format)
        assert torch.allclose(tail(other), whole, **ROUNDING)
        other += 0.01 * other.flip(-1)
        assert not torch.allclose(tail(other), whole, **ROUNDING), "it would show"
    assert len(kept) == RECORDS
    trained = set(mvit_layers.list_trainable_names(net, part))
    assert not trained & {name for name, _ in trunk.named_parameters()}
    assert not any(parameter.requires_grad for parameter in trunk.parameters())
    own = dict(tail.named_parameters())
    assert trained == {name for name, parameter in own.items() if parameter.requires_grad}
    assert all(own[name] is dict(net.named_parameters())[name] for name in own)


def test_what_is_kept_of_a_film_is_small() -> None:
    sizes = {
        part: tuple(mvit_layers.split_mvit(made(), part)[0](films(1)).shape[1:]) for part in PARTS
    }
    assert sizes == {"head": (128,), "last_norms": (129, 128), "norms": (2049, 32), "all": SMALL}


@pytest.mark.parametrize("name", ["mvit_v1_b", "mvit_v2_s"])
def test_a_published_network_has_its_published_size(name: str) -> None:
    published = {"mvit_v1_b": 36_610_672, "mvit_v2_s": 34_537_744}[name]
    with torch.device("meta"):
        net = mvit_layers.make_mvit(name, classes=400)
    assert size_of(net) == published


def test_the_parts_are_those_of_the_papers() -> None:
    with torch.device("meta"):
        second, first = (
            mvit_layers.make_mvit("mvit_v2_s", classes=60),
            mvit_layers.make_mvit("mvit_v1_b", classes=101),
        )
    named = mvit_layers.list_trainable_names(second, "last_norms")
    assert {name.split(".")[1] for name in named if name.startswith("blocks")} == {"14", "15"}
    assert all("norm" in name or name in weight_files.HEAD for name in named)
    assert {"blocks.14.norm1.weight", "norm.bias", "head.1.weight"} <= set(named)
    assert mvit_layers.list_trainable_names(second, "head") == weight_files.HEAD
    mvit_layers.split_mvit(second, "last_norms")
    assert size_of(second, is_trained=True) == pytest.approx(50_000, rel=0.1)  # the paper's "50k"
    mvit_layers.split_mvit(first, "norms")
    assert size_of(first, is_trained=True) == pytest.approx(110_000, rel=0.01)  # and its "110k"
    other = mvit_layers.list_trainable_names(first, "norms")
    assert {name.split(".")[1] for name in other if "blocks" in name} == set(map(str, range(16)))
    assert (
        set(named)
        < set(mvit_layers.list_trainable_names(second, "norms"))
        < set(mvit_layers.list_trainable_names(second, "all"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mvit_v1_b", "mvit_v2_s"])
@pytest.mark.parametrize("part", ["head", "last_norms", "norms"])
def test_a_published_network_is_cut_in_two(name: str, part: str) -> None:
    net = made(name)
    values = mvit_layers.prepare_films(
        np.random.default_rng(0).integers(0, 256, (1, 16, 8, 8, 3), "u1"), name
    )
    with torch.no_grad():
        trunk, tail = mvit_layers.split_mvit(net, part)
        assert torch.allclose(tail(trunk(values)), net(values), **ROUNDING)


@pytest.mark.parametrize("part", PARTS)
def test_gradients_of_all_records_at_once_are_those_of_one_after_the_other(part: str) -> None:
    net = made()
    with torch.no_grad():
        trunk, tail = mvit_layers.split_mvit(net, part)
        kept = trunk(films())
    targets = torch.arange(RECORDS)
    ask = gradients(tail, mvit_layers.list_trainable_names(net, part))
    together = torch.func.vmap(ask)(kept, targets)
    assert set(together) == set(mvit_layers.list_trainable_names(net, part))
    for name, value in together.items():
        assert value.shape == (RECORDS, *net.get_parameter(name).shape)
    for index in range(RECORDS):
        alone = flat(ask(kept[index], targets[index]))
        same = flat({name: value[index] for name, value in together.items()})
        assert (same - alone).norm() <= 1e-5 * alone.norm()
        assert alone.norm() > 0


def test_gradients_may_be_asked_for_while_training() -> None:
    net = made().train()
    trunk, tail = mvit_layers.split_mvit(net, "last_norms")
    ask = torch.func.vmap(
        gradients(tail.train(), mvit_layers.list_trainable_names(net, "last_norms"))
    )
    assert len(ask(trunk(films()).detach(), torch.arange(RECORDS))["norm.bias"]) == RECORDS


def test_records_do_not_touch_each_other() -> None:
    net, values = made(), films()
    other = values.clone()
    other[1] += 1
    with torch.no_grad():
        before, after = net(values), net(other)
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.equal(before[1], after[1])


def test_films_are_normalised_by_public_constants() -> None:
    grey = np.full((1, 16, 64, 64, 3), 51, np.uint8)  # 0.2
    ready = mvit_layers.prepare_films(grey, "mvit_small")
    assert ready.shape == (1, *SMALL) and ready.dtype == torch.float32
    assert torch.allclose(ready, torch.tensor((0.2 - 0.45) / 0.225))
    assert mvit_layers.prepare_films(grey, "mvit_v2_s").shape == (1, 3, 16, 224, 224)


def test_channels_and_frames_stay_in_order() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 16, 64, 64, 3), np.uint8)
    ready = mvit_layers.prepare_films(frames, "mvit_small")
    back = (ready * 0.225 + 0.45) * 255
    assert np.array_equal(back.permute(0, 2, 3, 4, 1).round().numpy(), frames)


@pytest.mark.parametrize(("name", "scale"), [("mvit_small", 2), ("mvit_v1_b", 2)])
def test_a_larger_film_is_resized_as_documented(name: str, scale: int) -> None:
    size = mvit_layers.NORMALISATION[name].size_px
    frames = np.zeros((1, 16, 4, size * scale, 3), np.uint8)
    frames[..., 10, :] = 255  # a line, half a pixel left of the middle of column 5
    line = mvit_layers.prepare_films(frames, name)[0, 0, 0, 0] * 0.225 + 0.45
    smooth = [0.125, 0.375, 0.0]  # a triangle of four pixels: 1/8, 3/8, 3/8, 1/8
    found = line[4:7].numpy()
    assert found == pytest.approx(smooth if name == "mvit_small" else [0, 0.5, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (np.zeros((1, 8, 64, 64, 3), np.uint8), "16 frames a film for mvit_small, got 8"),
        (np.zeros((1, 16, 64, 64, 3)), "float64"),
        (np.zeros((16, 64, 64, 3), np.uint8), r"\(N, T, H, W, 3\)"),
        (np.zeros((0, 16, 64, 64, 3), np.uint8), "N >= 1"),
    ],
)
def test_films_of_another_kind_are_refused(frames: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mvit_layers.prepare_films(frames, "mvit_small")


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(ValueError, match="mvit_v1_b, mvit_v2_s, mvit_small"):
        mvit_layers.make_mvit("mvit_large", classes=3)
    with pytest.raises(ValueError, match="last_norms, norms, all"):
        mvit_layers.split_mvit(made(), "tail")
    with pytest.raises(ValueError, match="classes"):
        mvit_layers.make_mvit("mvit_small", classes=0)


def test_weights_come_back_as_they_were_written(tmp_path: Path) -> None:
    net, path = made(), tmp_path / "w.safetensors"
    mvit_layers.save_weights(net, path)
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]
    torch.manual_seed(6)
    other = mvit_layers.make_mvit("mvit_small", classes=CLASSES)
    assert not torch.equal(other(films()), net(films()))
    assert mvit_layers.load_weights(other, path, keep_head=True)
    assert torch.equal(other(films()), net(films()))
    torch.save(net.state_dict(), tmp_path / "w.pth")
    assert mvit_layers.load_weights(made(), tmp_path / "w.pth")


def test_a_head_for_other_classes_is_left_out_and_said(tmp_path: Path) -> None:
    kinetics, path = made(classes=400), tmp_path / "k400.pth"
    torch.save(kinetics.state_dict(), path)
    torch.manual_seed(7)
    net = mvit_layers.make_mvit("mvit_small", classes=CLASSES)
    head = net.head[1].weight.clone()
    assert not mvit_layers.load_weights(net, path)
    assert torch.equal(net.head[1].weight, head)
    assert torch.equal(net.conv_proj.weight, kinetics.conv_proj.weight)
    with pytest.raises(BadInput, match=r"12 classes.*head\.1\.weight.*\(400, 128\)"):
        mvit_layers.load_weights(net, path, keep_head=True)


def faulty(kind: str, path: Path) -> str:
    """Write a file with a fault; what the message must say."""
    good = made().state_dict()
    if kind in ("truncated", "truncated_torch"):
        save_file(good, path) if kind == "truncated" else torch.save(good, path)
        path.write_bytes(path.read_bytes()[:-5000])
        return "whole file"
    if kind == "other_network":
        mvit_layers.save_weights(made(), path)
        save_file(load_file(path), path, metadata={"name": "mvit_v2_s"})
        return "those of mvit_v2_s"
    if kind == "not_tensors":
        torch.save({"model": {"a": 1}}, path)
        return "tensors by name"
    if kind in ("text", "empty"):
        path.write_text("hello" * 9 if kind == "text" else "")
        return "whole file"
    if kind == "object":
        torch.save(made(), path)
        return "whole file"
    if kind == "missing":
        del good["norm.bias"]
    elif kind == "strange":
        good["blocks.9.gamma"] = torch.zeros(2)
    elif kind == "shape":
        good["norm.bias"] = torch.zeros(7)
    elif kind == "nan":
        good["norm.bias"] = torch.full((128,), torch.nan)
    save_file(good, path)
    return {"strange": r"blocks\.9\.gamma\) too many"}.get(kind, r"norm\.bias")


@pytest.mark.parametrize(
    "kind",
    [
        *("truncated", "truncated_torch", "other_network", "not_tensors", "text", "empty"),
        *("object", "missing", "strange", "shape", "nan"),
    ],
)
def test_a_faulty_file_is_refused_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    said = faulty(kind, path)
    net = made()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(BadInput, match=said):
        mvit_layers.load_weights(net, path)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_weights_that_do_not_come_with_the_package_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mvit_layers, "find_packaged_weights", lambda name: tmp_path / f"{name}.safetensors"
    )
    with pytest.raises(BadInput, match=r"python tools/pretrain.py --network mvit_small"):
        mvit_layers.load_pretrained_mvit("mvit_small")
    mvit_layers.save_weights(made(), tmp_path / "mvit_small.safetensors")
    with pytest.raises(BadInput, match="got those of mvit_small"):
        mvit_layers.load_pretrained_mvit("mvit_v1_b")
    assert torch.equal(mvit_layers.load_pretrained_mvit("mvit_small")(films()), made()(films()))
    assert mvit_layers.load_pretrained_mvit("mvit_small", classes=5).head[1].out_features == 5
    with pytest.raises(ValueError, match="folder"):
        mvit_layers.save_weights(made(), tmp_path / "no" / "w.safetensors")


def test_pretraining_reads_public_people_only() -> None:
    worlds = list(pretrain._list_film_worlds(4_000))
    assert [(stage.seed, count) for stage, count in worlds] == [(1_000, 2_592), (1_001, 1_408)]
    assert {(stage.split, stage.repertoire) for stage, _ in worlds} == {("public", "public")}
    assert min(pretrain.SEEDS) == 1_000 and max(pretrain.SEEDS) < 2_000
    assert {int(known.subject[1:]) % 2 for known in worlds[0][0].labels} == {0}  # every second one
    everyone = np.array([known.subject for known in worlds[0][0].labels])
    held = pretrain.held_out_people(everyone)
    assert 0.05 < np.isin(everyone, held).mean() < 0.15


def test_pretraining_writes_weights_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn(videos: int, *_: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = np.random.default_rng(0).integers(0, 256, (videos, *SMALL), np.uint8)
        return (
            found,
            np.arange(videos) % LEARNED,
            np.array([f"s{i % 20:03}" for i in range(videos)]),
        )

    monkeypatch.setattr(pretrain, "_films", drawn)
    out = tmp_path / "w.safetensors"
    words = ["--out", str(out), "--videos", "48", "--epochs", "1"]
    run_tool(Pretrain, [*words, "--json"])
    done = json.loads(capsys.readouterr().out)
    assert (done["learned"], done["held_out"], done["people"]) == (44, 4, 18)
    assert 0 <= done["top_1"] <= 1 and done["chance"] == pytest.approx(1 / LEARNED)
    net = made(classes=LEARNED)
    before = net.conv_proj.weight.clone()
    assert mvit_layers.load_weights(net, out, keep_head=True)
    assert not mvit_layers.load_weights(made(), out)  # a task has another head
    assert not torch.equal(net.conv_proj.weight, before)
    refused = [["--videos", "3"], ["--out", str(tmp_path / "no" / "w"), "--videos", "48"]]
    if not torch.cuda.is_available():
        refused.append([*words, "--device", "cuda"])
    for each in refused:
        with pytest.raises(SystemExit) as stop:
            run_tool(Pretrain, each)
        assert stop.value.code == 2


@pytest.mark.slow
def test_public_films_are_drawn_with_their_labels(in_world: Path) -> None:
    found, targets, people = pretrain._films(26, "cpu", lambda done, total: None)
    assert found.shape == (26, *SMALL)
    stage, _ = next(pretrain._list_film_worlds(26))
    assert np.array_equal(np.moveaxis(stage[25].frames, -1, 0), found[25])  # type: ignore[union-attr]
    assert people[25] == f"1000/{stage.labels[25].subject}"
    assert stage.activities[targets[25]] == stage.labels[25].activity
