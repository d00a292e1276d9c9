"""Public views hold nothing private, segments follow one rule, and records stay apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.networks import mvit_layers
from masquerade.training import gradients, views
from masquerade.training.gradients import refuse_coupling
from masquerade.training.views import FILL_LEVEL, PrivateSide

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
nn = torch.nn
T, H, W = 16, 96, 80  # resized to 64 x 64


def film(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (T, H, W, 3), np.uint8)


def ellipse() -> np.ndarray:
    y, x = np.mgrid[:H, :W]
    inside = ((y - 50) / 33) ** 2 + ((x - 41) / 22) ** 2 < 1
    return np.broadcast_to(inside, (T, H, W)).copy()


def tokens_of_people(mask: np.ndarray) -> Any:
    """Tokens that lie for the most part on people: how a mask is applied too late."""
    shown = torch.from_numpy(mask).float()[None, None]
    return nn.functional.adaptive_avg_pool3d(shown, (8, 16, 16)).flatten() > 0.5


def public_gradient(frames: np.ndarray, *, keep: Any = None) -> dict[str, Any]:
    """Of all weights of the small network; ``keep`` masks the tokens after the embedding."""
    torch.manual_seed(0)
    net = mvit_layers.make_mvit("mvit_small", classes=3)
    trunk, tail = mvit_layers.split_mvit(net, "norms")  # the trunk is the embedding alone
    with torch.no_grad():
        tokens = trunk(mvit_layers.prepare_films(frames[None], "mvit_small"))
    if keep is not None:
        tokens[:, 1:] *= keep[None, :, None]
    weights = {n: p.detach() for n, p in tail.named_parameters() if p.requires_grad}

    def loss(held: Any, one: Any, target: Any) -> Any:
        out = torch.func.functional_call(tail, dict(held), (one[None],))
        return nn.functional.cross_entropy(out, target[None])

    return gradients.mean_of(loss, weights, tokens, torch.tensor([1]), chunk=1)


@pytest.mark.parametrize("private", list(PrivateSide))
def test_private_pixels_leave_the_public_gradient_alone_bit_for_bit(private: PrivateSide) -> None:
    mask = ellipse()
    hidden = mask if private is PrivateSide.PERSON else ~mask
    one = film(1)
    other = np.where(hidden[..., None], film(2), one)
    first, second = (public_gradient(views.fill_private(f, mask, private)) for f in (one, other))
    assert all(torch.equal(first[name], second[name]) for name in first)
    moved = one.copy()
    moved[~hidden] ^= 255
    third = public_gradient(views.fill_private(moved, mask, private))
    assert not torch.equal(first["head.1.weight"], third["head.1.weight"]), "public ones do count"


def test_a_mask_after_the_embedding_would_let_private_pixels_through() -> None:
    mask, one = ellipse(), film(1)
    other = np.where(~mask[..., None], film(2), one)
    late = [public_gradient(f, keep=tokens_of_people(mask)) for f in (one, other)]
    assert not torch.equal(late[0]["head.1.weight"], late[1]["head.1.weight"])


def test_a_mask_after_resizing_would_let_private_pixels_through() -> None:
    mask, one = ellipse(), film(1)
    other = np.where(~mask[..., None], film(2), one)
    small = [mvit_layers.prepare_films(f[None], "mvit_small")[0, :, 0] for f in (one, other)]
    shown = torch.from_numpy(mask[:1]).float()[None]
    inside = nn.functional.interpolate(shown, (64, 64), mode="nearest")[0, 0].bool()
    assert not torch.equal(small[0][:, inside], small[1][:, inside])


def test_filling_makes_a_new_video_with_one_grey_where_it_is_private() -> None:
    frames, mask = film(3), ellipse()
    before = frames.copy()
    shown = views.fill_private(frames, mask, PrivateSide.BACKGROUND, border=0)
    assert shown.dtype == np.uint8 and (shown[~mask] == FILL_LEVEL).all()
    assert np.array_equal(shown[mask], frames[mask])
    assert (
        views.fill_private(frames, mask, PrivateSide.PERSON, border=0)[mask] == FILL_LEVEL
    ).all()
    assert np.array_equal(frames, before) and not np.shares_memory(shown, frames)


def test_a_missing_or_misshapen_mask_is_refused() -> None:
    with pytest.raises(BadInput, match="Expected a person mask"):
        views.fill_private(film(1), None, PrivateSide.PERSON)
    for wrong in (ellipse()[1:], ellipse()[:, :, :-1], ellipse()[..., None]):
        with pytest.raises(ValueError, match="person_mask"):
            views.fill_private(film(1), wrong, PrivateSide.PERSON)


def numbered(total: int) -> np.ndarray:
    frames = np.zeros((total, 1, 1, 3), np.uint8)
    frames[:, 0, 0, 0] = np.arange(total)
    return frames


def times(total: int, *, count: int, length: int) -> list[list[int]]:
    cut = views.spread_segments(numbered(total), count=count, length=length)
    assert cut.shape == (count, length, 1, 1, 3)
    found: list[list[int]] = cut[:, :, 0, 0, 0].tolist()
    return found


def test_a_short_video_is_played_to_and_fro() -> None:
    assert times(1, count=2, length=4) == [[0, 0, 0, 0]] * 2
    assert times(2, count=1, length=5) == [[0, 1, 0, 1, 0]]
    assert times(3, count=1, length=8) == [[0, 1, 2, 1, 0, 1, 2, 1]]


def test_a_long_video_is_thinned_and_segments_are_spread() -> None:
    assert times(8, count=2, length=4) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert times(16, count=1, length=16) == [list(range(16))]
    three = times(22, count=3, length=16)
    assert [some[0] for some in three] == [0, 3, 6] and three[-1][-1] == 21
    for total in (5, 17, 100, 250):
        for some in times(total, count=3, length=16):
            assert set(np.abs(np.diff(some))) == {max(1, total // 16)}
    with pytest.raises(ValueError, match="count"):
        views.spread_segments(numbered(4), count=0, length=4)


def test_a_single_segment_is_the_middle_one() -> None:
    for total in (16, 17, 30, 31, 47, 100, 250):
        (some,) = times(total, count=1, length=16)
        assert 0 <= some[0] - (total - 1 - some[-1]) <= 1, "as much before as after"


def test_several_segments_are_spread_from_the_first_to_the_last_frame() -> None:
    for total in (17, 31, 64, 100, 250):
        for count in (2, 3, 5):
            some = times(total, count=count, length=16)
            assert some[0][0] == 0 and some[-1][-1] == total - 1
            assert np.ptp(np.diff([one[0] for one in some])) <= 1, "evenly"


def test_the_fingerprint_changes_with_any_mask() -> None:
    masks = [ellipse(), np.zeros((2, 3, 5), bool)]
    base = views.hash_masks(masks)
    assert base == views.hash_masks([mask.copy() for mask in masks]) and len(base) == 64
    turned = [masks[0].copy(), masks[1]]
    turned[0][3, 50, 41] ^= True
    others = [
        views.hash_masks(some)
        for some in (turned, masks[::-1], masks[:1], [masks[0], masks[1].reshape(3, 2, 5)])
    ]
    assert len({base, *others}) == 5


class Mixes(nn.Module):  # type: ignore[misc]
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Any) -> Any:
        if self.how == "softmax":
            return x.softmax(dim=0)
        if self.how == "sum so far":
            return x.cumsum(dim=0)
        return x - x.mean(dim=0, keepdim=True)


class ByTime(nn.Module):  # type: ignore[misc]
    """The usual slip: an LSTM that takes the axis of records for time."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(6, 6)

    def forward(self, x: Any) -> Any:
        return self.memory(x[:, None])[0][:, 0]


def net_with(layer: Any) -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, 4))


def some_inputs(count: int = 4) -> Any:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(2))


def test_batch_statistics_are_refused_by_name_and_fixed_ones_are_not() -> None:
    net = net_with(nn.BatchNorm1d(6))
    before = net[1].running_mean.clone()
    with pytest.raises(ValueError, match="BatchNorm1d at '1'"):
        refuse_coupling(net.train(), some_inputs())
    assert torch.equal(net[1].running_mean, before)
    refuse_coupling(net.eval(), some_inputs())


def test_with_fixed_statistics_each_record_has_the_gradient_it_has_alone() -> None:
    net, inputs, targets = net_with(nn.BatchNorm1d(6)), some_inputs(), torch.tensor([0, 1, 2, 3])
    net(3 * inputs - 1)  # learns statistics
    net.eval()

    def loss(weights: Any, one: Any, target: Any) -> Any:
        out = torch.func.functional_call(net, weights, (one[None],))
        return nn.functional.cross_entropy(out, target[None])

    weights = {name: value.detach() for name, value in net.named_parameters()}
    found = gradients.per_record(loss, weights, inputs, targets, chunk=4)
    for number in range(4):
        net.zero_grad()
        loss(dict(net.named_parameters()), inputs[number], targets[number]).backward()
        for name, held in net.named_parameters():
            assert torch.allclose(found[name][number], held.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["softmax", "mean"])
def test_a_layer_that_mixes_records_is_refused_by_name(how: str) -> None:
    for count in (2, 5):
        with pytest.raises(ValueError, match="got a layer that mixes them: '1'"):
            refuse_coupling(net_with(Mixes(how)), some_inputs(count))


@pytest.mark.parametrize(
    "layer", [Mixes("sum so far"), ByTime()], ids=["sum so far", "lstm over records"]
)
def test_a_layer_in_which_records_see_those_before_them_is_refused(layer: Any) -> None:
    with pytest.raises(ValueError, match="mixes"):
        refuse_coupling(net_with(layer), some_inputs())


def test_networks_that_treat_each_record_alone_are_accepted() -> None:
    refuse_coupling(net_with(nn.LayerNorm(6)), some_inputs())
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Flatten(), nn.Linear(288, 2))
    refuse_coupling(conv, torch.rand(3, 3, 8, 8))
    torch.manual_seed(0)
    trunk, tail = mvit_layers.split_mvit(
        mvit_layers.make_mvit("mvit_small", classes=3), "last_norms"
    )
    with torch.no_grad():
        refuse_coupling(tail.train(), trunk(torch.rand(2, 3, 16, 64, 64)))
    assert not any(layer._forward_hooks for layer in tail.modules()), "no hook is left behind"
