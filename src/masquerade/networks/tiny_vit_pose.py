"""TinyViT with a head for joints: built, read from files of weights, and cut in two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from masquerade import _check, joints
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.networks import simcc, tiny_vit_layers, weight_files
from masquerade.networks.network import shipped

PARTS = ("head", "last_norms", "norms", "last_stage", "all")
_STAGES = 4
_HEAD = "head."
_BACKBONE = "backbone."
# A published head's names (mmpose's), and ours.
_PUBLISHED = {"final_layer": "joints", "mlp_head_x": "x", "mlp_head_y": "y"}


class JointFinder(nn.Module):
    """Crops (N, 3, 256, 192) as logits (N, J, 896) of where joints are.

    Args:
        name: of the backbone.
        count: J.
        smoothing: standard deviation of targets, in bins.
        is_folded: whether batch norms are folded in; they must be for private training.
    """

    def __init__(
        self, name: str, count: int, *, smoothing: float = 3.0, is_folded: bool = True
    ) -> None:
        super().__init__()
        self.name = name
        self.backbone = tiny_vit_layers.TinyVit(tiny_vit_layers.shape_of(name), is_folded=is_folded)
        self.head = simcc.Simcc(self.backbone.width, count, smoothing=smoothing)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.backbone(crops))
        return logits

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """(N,): the loss of each record, of it alone."""
        return self.head.losses(logits, targets)


class JointFinderPiece(nn.Module):
    """Some steps of a network, under their own names: embedding, four stages, head."""

    def __init__(self, net: JointFinder, steps: range) -> None:
        super().__init__()
        self.backbone: Any = nn.Module()
        if 0 in steps:
            self.backbone.patch_embed = net.backbone.patch_embed
        chosen = [number for number in range(_STAGES) if number + 1 in steps]
        self.backbone.stages = nn.ModuleDict(
            {str(number): net.backbone.stages[number] for number in chosen}
        )
        if _STAGES + 1 in steps:
            self.head = net.head

    def forward(self, values: Tensor) -> Tensor:
        """Run the steps."""
        if hasattr(self.backbone, "patch_embed"):
            values = self.backbone.patch_embed(values)
        for stage in self.backbone.stages.values():
            values = stage(values)
        return self.head(values) if hasattr(self, "head") else values

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """(N,): the loss of each record, of it alone."""
        return self.head.losses(logits, targets)


def trainable(net: JointFinder, part: str) -> tuple[str, ...]:
    """The names of the parameters that are trained.

    Args:
        net: to be trained.
        part: the head; with the norms of the last stage; with every norm; with every norm and the
            whole last stage, the first three frozen [sivangi2025, Sec. 4.1]; or all.
    """
    if part not in PARTS:
        raise ValueError(_check.unknown("part", part, PARTS))
    every = tuple(name for name, _ in net.named_parameters())
    if part == "all":
        return every
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.LayerNorm)}
    last = f"{_BACKBONE}stages.{_STAGES - 1}."
    scope = {"head": "nothing", "last_norms": last}.get(part, _BACKBONE)
    chosen = {name for name in norms if name.startswith(scope)}
    whole = (_HEAD, last) if part == "last_stage" else (_HEAD,)
    return tuple(n for n in every if n.startswith(whole) or n.rpartition(".")[0] in chosen)


def split(net: JointFinder, part: str) -> tuple[nn.Module, nn.Module]:
    """Cut before the first module that is trained: ``tail(trunk(crops))`` is ``net(crops)``.

    The embedding is step 0, then four stages, of which the first has no norm, then the head.
    """
    wanted = set(trainable(net, part))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name in wanted)
    cut = {"all": 0, "norms": 2, "last_stage": 2, "last_norms": _STAGES, "head": _STAGES + 1}[part]
    trunk = JointFinderPiece(net, range(cut)) if cut else nn.Identity()
    return trunk, JointFinderPiece(net, range(cut, _STAGES + 2))


def load_weights(net: JointFinder, path: Path) -> None:
    """Put public weights into a network.

    Read are our own files, timm's of the backbone alone (the head is then left as it is), and files
    that call them ``backbone.*`` and ``head.final_layer``, ``head.mlp_head_x``,
    ``head.mlp_head_y``. Batch norms are folded in. Joints that another list has are taken by their
    names; one that it lacks begins as the mean of those next to it.

    Raises:
        BadInput: if the file is not whole, or not this network's.
    """
    found, name = weight_files.read_tensors(path)
    if name not in (None, net.name):
        raise BadInput(f"Expected the weights of {net.name}, got those of {name}: {path}.")
    own = net.state_dict()
    found = _as_ours(found, net)
    if not any(key.startswith(_HEAD) for key in found):
        found |= {key: value for key, value in own.items() if key.startswith(_HEAD)}
    found = {key: value.to(torch.float32) for key, value in found.items()}
    weight_files.fill(
        net, _of_joints(found, len(own[f"{_HEAD}joints.weight"]), path), name=net.name, path=path
    )


def _as_ours(found: Mapping[str, Tensor], net: JointFinder) -> dict[str, Tensor]:
    """Tensors under our names, folded."""
    if not any(key.startswith(_BACKBONE) for key in found):  # timm's: the rest classifies
        found = {
            f"{_BACKBONE}{key}": value for key, value in found.items() if not key.startswith(_HEAD)
        }
    named = {}
    for key, value in found.items():
        if key.endswith(("num_batches_tracked", "attention_bias_idxs")):
            continue
        for theirs, ours in _PUBLISHED.items():
            if key.startswith(f"{_HEAD}{theirs}."):
                key = key.replace(theirs, ours, 1)
        named[key] = _classifier(key, value, net)
    return tiny_vit_layers.folded(named)


def _classifier(key: str, value: Tensor, net: JointFinder) -> Tensor:
    is_published = key in (f"{_HEAD}x.weight", f"{_HEAD}y.weight") and value.ndim == 2
    is_published = is_published and value.shape[1] == simcc.ENLARGED[0] * simcc.ENLARGED[1]
    return simcc.reduced(value) if is_published else value


def _of_joints(found: dict[str, Tensor], count: int, path: Path) -> dict[str, Tensor]:
    """The same with one channel for each joint of another list."""
    weight, bias = f"{_HEAD}joints.weight", f"{_HEAD}joints.bias"
    there = len(found[weight]) if weight in found and found[weight].ndim else 0
    if there == count or bias not in found:
        return found
    if there not in joints.LISTS:
        listed = ", ".join(map(str, joints.LISTS))
        raise BadInput(f"Expected weights for {listed} joints, got {path} with {there}.")
    mixed = _mixing(joints.listed(there), joints.listed(count))
    channels = (mixed @ found[weight].flatten(1)).reshape(count, *found[weight].shape[1:])
    return found | {weight: channels, bias: mixed @ found[bias]}


def _mixing(theirs: tuple[str, ...], ours: tuple[str, ...]) -> Tensor:
    """(ours, theirs): which of their joints each of ours begins as."""
    mixed = torch.zeros(len(ours), len(theirs))
    for row, name in enumerate(ours):
        near = [name] if name in theirs else [one for one in joints.NEAR[name] if one in theirs]
        for one in near or theirs[:1]:
            mixed[row, theirs.index(one)] = 1 / len(near or theirs[:1])
    return mixed


def pretrained(name: str, count: int, *, smoothing: float = 3.0) -> JointFinder:
    """A network with the weights that come with this package, learned from nobody.

    Raises:
        BadInput: if there are none.
    """
    path = shipped(name)
    if not path.is_file():
        raise BadInput(
            f"Expected weights of {name} in this package, got none; make them with "
            f"python tools/pretrain.py --task pose --network {name} --out FILE, and give --weights "
            "FILE."
        )
    net = JointFinder(name, count, smoothing=smoothing)
    load_weights(net, path)
    return net


def folded(net: JointFinder) -> JointFinder:
    """The same function without batch norms."""
    count = net.head.joints.out_channels
    made = JointFinder(net.name, count, smoothing=net.head.smoothing)
    made.load_state_dict(tiny_vit_layers.folded(dict(net.state_dict())))
    return made


def answers(net: nn.Module, crops: Tensor, *, is_flipped: bool, batch: int = 16) -> Tensor:
    """Logits (N, J, 896) for crops, some at a time; with the mean over mirrored ones if asked."""
    found = []
    with torch.no_grad():
        for some in crops.split(batch):
            said = net(some)
            if is_flipped:
                pairs = joints.mirrored(joints.listed(said.shape[1]))
                said = simcc.both_ways(said, simcc.unmirrored(net(some.flip(3)), pairs))
            found.append(said)
    return torch.cat(found)
