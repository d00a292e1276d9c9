"""Batch norm becomes part of the layer before it and nothing changes; or it is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade.train import gradients
from masquerade.train.coupling import refuse_coupling
from masquerade.train.folding import fold_batch_norm

torch = pytest.importorskip("torch")
nn = torch.nn
torch.set_num_threads(1)

CONVS = {
    1: (nn.Conv1d, nn.BatchNorm1d),
    2: (nn.Conv2d, nn.BatchNorm2d),
    3: (nn.Conv3d, nn.BatchNorm3d),
}


def learned(net: Any, shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any]:
    """The network after batches that gave it statistics far from those it was made with."""
    torch.manual_seed(seed)
    for layer in net.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.weight is not None:
            nn.init.uniform_(layer.weight, 0.3, 2.0)
            nn.init.normal_(layer.bias)
    for _ in range(5):
        net(3 * torch.rand(16, *shape) - 1)
    return net, torch.rand(4, *shape)


def same(one: Any, other: Any, inputs: Any) -> None:
    with torch.no_grad():
        wanted, got = one.eval()(inputs), other.eval()(inputs)
    assert float((got - wanted).abs().max()) <= 1e-5 * float(wanted.abs().max())


class Residual(nn.Module):
    """A block as in a residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(x + self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_a_convolution_takes_its_batch_norm_in(axes: int, bias: bool) -> None:
    conv, norm = CONVS[axes]
    made = nn.Sequential(conv(3, 6, 3, groups=3, bias=bias), norm(6, affine=bias), nn.ReLU())
    net, inputs = learned(made, (3, *[7] * axes))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    folded = fold_batch_norm(net, inputs)
    assert isinstance(folded[1], nn.Identity) and folded[0].bias is not None
    same(net, folded, inputs)
    kept = net.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in before.items()), "left alone"


def test_blocks_and_linear_layers_are_folded_and_can_then_be_trained() -> None:
    made = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), Residual(), nn.Flatten(),
        nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3),
    )  # fmt: skip
    net, inputs = learned(made, (3, 5, 5))
    with pytest.raises(ValueError, match=r"BatchNorm2d at '1'; fold it .*fold_batch_norm"):
        refuse_coupling(net.train(), inputs)
    net[0].requires_grad_(False)
    folded = fold_batch_norm(net.train(), inputs)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in folded.modules())
    assert folded.training and folded[2].training
    assert not folded[0].bias.requires_grad and folded[4].weight.requires_grad
    refuse_coupling(folded, inputs)
    same(net, folded, inputs)

    def loss(weights: Any, one: Any, target: Any) -> Any:
        out = torch.func.functional_call(folded, weights, (one[None],))
        return nn.functional.cross_entropy(out, target[None])

    weights = {n: v.detach() for n, v in folded.named_parameters() if v.requires_grad}
    found = gradients.per_record(loss, weights, inputs, torch.tensor([0, 1, 2, 0]), chunk=4)
    assert gradients.norms(found).shape == (4,) and "0.weight" not in found


def test_a_published_network_stays_what_it_was() -> None:
    models = pytest.importorskip("masquerade.nets.torchvision").torchvision.models
    torch.manual_seed(1)
    net, inputs = learned(models.resnet18(num_classes=5), (3, 32, 32))
    folded = fold_batch_norm(net, inputs)
    same(net, folded, inputs)
    assert isinstance(folded.layer2[0].downsample[1], nn.Identity)


def test_statistics_that_were_never_learned_are_refused() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(ValueError, match="Expected learned statistics in '1', got those it was"):
        fold_batch_norm(net, torch.rand(2, 3, 5, 5))
    net[1] = nn.BatchNorm2d(4, track_running_stats=False)
    with pytest.raises(ValueError, match="'1', got a batch norm without any"):
        fold_batch_norm(net, torch.rand(2, 3, 5, 5))


class Shared(nn.Module):
    """One convolution before two norms, or one that something else looks at too."""

    def __init__(self, *, is_twice: bool) -> None:
        super().__init__()
        self.conv, self.first, self.second = (
            nn.Conv1d(2, 3, 1),
            nn.BatchNorm1d(3),
            nn.BatchNorm1d(3) if is_twice else nn.Identity(),
        )

    def forward(self, x: Any) -> Any:
        out = self.conv(x)
        return self.first(out) + self.second(self.conv(x) if self.second_is_norm else out)

    @property
    def second_is_norm(self) -> bool:
        return isinstance(self.second, nn.BatchNorm1d)


REFUSED = {
    "first": (nn.Sequential(nn.BatchNorm1d(3), nn.Conv1d(3, 4, 1)), (3, 6), "before '0'"),
    "between": (
        nn.Sequential(nn.Conv1d(3, 4, 1), nn.ReLU(), nn.BatchNorm1d(4)), (3, 6), "before '2'",
    ),
    "in place": (
        nn.Sequential(nn.Conv1d(3, 4, 1), nn.ReLU(inplace=True), nn.BatchNorm1d(4)),
        (3, 6),
        "folding '2' into '0'",
    ),
    "twice": (Shared(is_twice=True), (2, 6), "before 'first'"),
    "seen": (Shared(is_twice=False), (2, 6), "folding 'first' into 'conv'"),
    "axis": (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), (4, 5), "folding '1' into '0'"),
    "width": (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(7)), (7, 5), "folding '1' into '0'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_folded_is_refused_by_name(case: str) -> None:
    made, shape, words = REFUSED[case]
    net, inputs = learned(made, shape)
    with pytest.raises(ValueError, match=words):
        fold_batch_norm(net, inputs)
