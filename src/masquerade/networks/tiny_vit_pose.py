"""TinyViT with a head for joints: built, read from files of weights, and cut in two.

Joints as classes: one classifier over columns, one over rows [lisimcc2022].

The published head makes one small map a joint, enlarges it bilinearly and shows all its numbers to
two linear layers over bins, of which there are two a pixel. What is enlarged lies in a subspace of
as many dimensions as the small map has numbers, so the linear layers are kept in an orthonormal
basis of it: the function, its gradients and their norms are the same, with a sixteenth of the
weights, and privacy noise is added to no weight that could never matter.

Convention:
    A crop spans 0 to 192 across and 0 to 256 down. Bin b has its middle at (b + 0.5) / 2.
    Targets are (..., J, 3): x, y and how much the joint counts, 0 if it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from masquerade import _check, joints
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.networks import tiny_vit_layers, weight_files
from masquerade.networks.network import find_packaged_weights
from masquerade.networks.picture_crops import SIZE_PX

BINS_PER_PX = 2  # bins a pixel
BINS = (SIZE_PX[1] * BINS_PER_PX, SIZE_PX[0] * BINS_PER_PX)  # across, down
ENLARGED_MAP_SIZE = (32, 24)  # the published map: height, width
_STRIDE = 32  # of the features that the head is given
_SMALL_MAP_SIZE = (SIZE_PX[0] // _STRIDE, SIZE_PX[1] // _STRIDE)


class DecodedJoints(NamedTuple):
    """Where joints are.

    Args:
        joints: (..., J, 2) in the crop.
        scores: (..., J) from 0 to 1: how high the peaks are, beside those of a target.
    """

    joints: Tensor
    scores: Tensor


class SimccHead(nn.Module):
    """Features (N, C, 8, 6) as (N, J, 896): logits of bins across, then of bins down.

    Args:
        width: C.
        joints: J.
        smoothing: standard deviation of targets, in bins.
    """

    def __init__(self, width: int, joints: int, *, smoothing: float = 3.0) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.joints = nn.Conv2d(width, joints, 1)
        numbers = math.prod(_SMALL_MAP_SIZE)
        self.x, self.y = (nn.Linear(numbers, bins) for bins in BINS)
        _, coordinates = torch.linalg.qr(make_enlarging_matrix())
        self.register_buffer("coordinates", coordinates.float(), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        seen = self.joints(features).flatten(2) @ self.coordinates.T  # (N, J, 48)
        return torch.cat([self.x(seen), self.y(seen)], dim=2)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """(N,): the loss of each record, from (N, J, 896) and targets (N, J, 3); of it alone."""
        return compute_simcc_losses(logits, targets, smoothing=self.smoothing)


def make_enlarging_matrix() -> Tensor:
    """(768, 48) float64: bilinear from the small map to the large one, as a matrix."""
    numbers = math.prod(_SMALL_MAP_SIZE)
    each = torch.eye(numbers, dtype=torch.float64).reshape(numbers, 1, *_SMALL_MAP_SIZE)
    large = nn.functional.interpolate(
        each, size=ENLARGED_MAP_SIZE, mode="bilinear", align_corners=False
    )
    return large.flatten(1).T.contiguous()


def reduce_classifier(weight: Tensor) -> Tensor:
    """A published classifier (bins, 768) as ours (bins, 48): the same function of small maps."""
    basis, _ = torch.linalg.qr(make_enlarging_matrix())
    found: Tensor = (weight.double() @ basis).to(weight.dtype)
    return found


def compute_simcc_losses(logits: Tensor, targets: Tensor, *, smoothing: float) -> Tensor:
    """Kullback-Leibler divergence of what is said from smoothed targets, the mean over all joints.

    A joint that does not count adds nothing, and the mean is over all J, so nothing in it depends
    on any other record.
    """
    total = torch.zeros(targets.shape[:-1], dtype=logits.dtype, device=logits.device)
    for axis, said in enumerate(logits.split(BINS, dim=-1)):
        wanted = _smooth_targets(
            targets[..., axis], said.shape[-1], smoothing
        )  # log, (..., J, bins)
        apart = wanted.exp() * (wanted - said.log_softmax(dim=-1))
        total = total + apart.sum(dim=-1)
    return (total * targets[..., 2]).mean(dim=-1)


def _smooth_targets(places: Tensor, bins: int, smoothing: float) -> Tensor:
    """Logarithms of a Gaussian around each place, that add up to one over the bins."""
    middles = torch.arange(bins, device=places.device, dtype=places.dtype)
    away = middles - (places[..., None] * BINS_PER_PX - 0.5)
    return (-0.5 * (away / smoothing) ** 2).log_softmax(dim=-1)


def decode_joints(logits: Tensor, *, smoothing: float) -> DecodedJoints:
    """Where the bins say that joints are; exact where they say a Gaussian.

    The logarithm of a Gaussian is a parabola, so three bins around the highest give its middle.
    """
    places, peaks = [], []
    for said in logits.split(BINS, dim=-1):
        level = said.log_softmax(dim=-1)
        peak = level.max(dim=-1)
        places.append((_find_parabola_top(level, peak.indices) + 0.5) / BINS_PER_PX)
        peaks.append(peak.values.exp())
    best = 1 / (smoothing * math.sqrt(2 * math.pi))
    score = (peaks[0] * peaks[1]).sqrt() / best
    return DecodedJoints(torch.stack(places, dim=-1), score.clamp(max=1.0))


def _find_parabola_top(level: Tensor, place: Tensor) -> Tensor:
    """The top of the parabola through the three bins around a place, or nearest to it."""
    inner = place.clamp(1, level.shape[-1] - 2)
    before, here, after = (
        level.gather(-1, (inner + step)[..., None])[..., 0] for step in (-1, 0, 1)
    )
    bend = before - 2 * here + after
    shift = 0.5 * (before - after) / torch.where(bend < 0, bend, -torch.ones_like(bend))
    return torch.where(bend < 0, inner + shift.clamp(-1.5, 1.5), place.to(shift.dtype))


def unmirror_logits(logits: Tensor, pairs: list[int]) -> Tensor:
    """What is said of mirrored crops, as of the crops themselves.

    Args:
        logits: (N, J, 896).
        pairs: where each joint is when left and right change places.
    """
    across, down = logits.split(BINS, dim=-1)
    return torch.cat([across.flip(-1), down], dim=-1)[..., pairs, :]


def average_answers(straight: Tensor, turned: Tensor) -> Tensor:
    """The mean of two answers, as logits; each axis' probabilities are averaged."""
    pairs = zip(straight.split(BINS, dim=-1), turned.split(BINS, dim=-1), strict=True)
    means = [(one.softmax(-1) + two.softmax(-1)).clamp_min(1e-30).log() for one, two in pairs]
    return torch.cat(means, dim=-1)


PARTS = ("head", "last_norms", "norms", "last_stage", "all")
_STAGES = 4
_HEAD = "head."
_BACKBONE = "backbone."
# A published head's names (mmpose's), and ours.
_PUBLISHED_LAYERS = {"final_layer": "joints", "mlp_head_x": "x", "mlp_head_y": "y"}


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
        self.backbone = tiny_vit_layers.TinyVit(
            tiny_vit_layers.find_tiny_vit_shape(name), is_folded=is_folded
        )
        self.head = SimccHead(self.backbone.width, count, smoothing=smoothing)

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


def list_trainable_parameters(net: JointFinder, part: str) -> tuple[str, ...]:
    """The names of the parameters that are trained.

    Args:
        net: to be trained.
        part: the head; with the norms of the last stage; with every norm; with every norm and the
            whole last stage, the first three frozen [sivangi2025, Sec. 4.1]; or all.
    """
    if part not in PARTS:
        raise ValueError(_check.describe_unknown("part", part, PARTS))
    every = tuple(name for name, _ in net.named_parameters())
    if part == "all":
        return every
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.LayerNorm)}
    last = f"{_BACKBONE}stages.{_STAGES - 1}."
    scope = {"head": "nothing", "last_norms": last}.get(part, _BACKBONE)
    chosen = {name for name in norms if name.startswith(scope)}
    whole = (_HEAD, last) if part == "last_stage" else (_HEAD,)
    return tuple(n for n in every if n.startswith(whole) or n.rpartition(".")[0] in chosen)


def split_joint_finder(net: JointFinder, part: str) -> tuple[nn.Module, nn.Module]:
    """Cut before the first module that is trained: ``tail(trunk(crops))`` is ``net(crops)``.

    The embedding is step 0, then four stages, of which the first has no norm, then the head.
    """
    wanted = set(list_trainable_parameters(net, part))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name in wanted)
    cut = {"all": 0, "norms": 2, "last_stage": 2, "last_norms": _STAGES, "head": _STAGES + 1}[part]
    trunk = JointFinderPiece(net, range(cut)) if cut else nn.Identity()
    return trunk, JointFinderPiece(net, range(cut, _STAGES + 2))


def load_finder_weights(net: JointFinder, path: Path) -> None:
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
    found = _translate_tensors(found, net)
    if not any(key.startswith(_HEAD) for key in found):
        found |= {key: value for key, value in own.items() if key.startswith(_HEAD)}
    found = {key: value.to(torch.float32) for key, value in found.items()}
    weight_files.fill_weights(
        net,
        _translate_joints(found, len(own[f"{_HEAD}joints.weight"]), path),
        name=net.name,
        path=path,
    )


def _translate_tensors(found: Mapping[str, Tensor], net: JointFinder) -> dict[str, Tensor]:
    """Tensors under our names, folded."""
    if not any(key.startswith(_BACKBONE) for key in found):  # timm's: the rest classifies
        found = {
            f"{_BACKBONE}{key}": value for key, value in found.items() if not key.startswith(_HEAD)
        }
    named = {}
    for key, value in found.items():
        if key.endswith(("num_batches_tracked", "attention_bias_idxs")):
            continue
        for theirs, ours in _PUBLISHED_LAYERS.items():
            if key.startswith(f"{_HEAD}{theirs}."):
                key = key.replace(theirs, ours, 1)
        named[key] = _convert_classifier(key, value, net)
    return tiny_vit_layers.fold_batch_norms(named)


def _convert_classifier(key: str, value: Tensor, net: JointFinder) -> Tensor:
    is_published = key in (f"{_HEAD}x.weight", f"{_HEAD}y.weight") and value.ndim == 2
    is_published = is_published and value.shape[1] == ENLARGED_MAP_SIZE[0] * ENLARGED_MAP_SIZE[1]
    return reduce_classifier(value) if is_published else value


def _translate_joints(found: dict[str, Tensor], count: int, path: Path) -> dict[str, Tensor]:
    """The same with one channel for each joint of another list."""
    weight, bias = f"{_HEAD}joints.weight", f"{_HEAD}joints.bias"
    there = len(found[weight]) if weight in found and found[weight].ndim else 0
    if there == count or bias not in found:
        return found
    if there not in joints.JOINT_LISTS:
        listed = ", ".join(map(str, joints.JOINT_LISTS))
        raise BadInput(f"Expected weights for {listed} joints, got {path} with {there}.")
    mixed = _make_joint_mixing(joints.find_joint_list(there), joints.find_joint_list(count))
    channels = (mixed @ found[weight].flatten(1)).reshape(count, *found[weight].shape[1:])
    return found | {weight: channels, bias: mixed @ found[bias]}


def _make_joint_mixing(theirs: tuple[str, ...], ours: tuple[str, ...]) -> Tensor:
    """(ours, theirs): which of their joints each of ours begins as."""
    mixed = torch.zeros(len(ours), len(theirs))
    for row, name in enumerate(ours):
        near = [name] if name in theirs else [one for one in joints.NEAR[name] if one in theirs]
        for one in near or theirs[:1]:
            mixed[row, theirs.index(one)] = 1 / len(near or theirs[:1])
    return mixed


def load_pretrained_finder(name: str, count: int, *, smoothing: float = 3.0) -> JointFinder:
    """A network with the weights that come with this package, learned from nobody.

    Raises:
        BadInput: if there are none.
    """
    path = find_packaged_weights(name)
    if not path.is_file():
        raise BadInput(
            f"Expected weights of {name} in this package, got none; make them with "
            f"python tools/pretrain.py --task pose --network {name} --out FILE, and give --weights "
            "FILE."
        )
    net = JointFinder(name, count, smoothing=smoothing)
    load_finder_weights(net, path)
    return net


def fold_joint_finder(net: JointFinder) -> JointFinder:
    """The same function without batch norms."""
    count = net.head.joints.out_channels
    made = JointFinder(net.name, count, smoothing=net.head.smoothing)
    made.load_state_dict(tiny_vit_layers.fold_batch_norms(dict(net.state_dict())))
    return made


def predict_joint_logits(
    net: nn.Module, crops: Tensor, *, is_flipped: bool, batch: int = 16
) -> Tensor:
    """Logits (N, J, 896) for crops, some at a time; with the mean over mirrored ones if asked."""
    found = []
    with torch.no_grad():
        for some in crops.split(batch):
            said = net(some)
            if is_flipped:
                pairs = joints.find_mirror_order(joints.find_joint_list(said.shape[1]))
                said = average_answers(said, unmirror_logits(net(some.flip(3)), pairs))
            found.append(said)
    return torch.cat(found)
