"""A batch is cut into pieces of two shapes, with little filled up; a GPU replays the work."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.training import gradients
from masquerade.training.step import ReplayedFunction, split_sizes

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@given(st.integers(0, 300), st.integers(1, 70))
def test_pieces_hold_everyone_in_two_shapes_and_hardly_anybody_else(
    count: int, physical: int
) -> None:
    found = split_sizes(count, physical)
    short = -(-physical // 4)
    assert 0 <= sum(found) - count < short
    assert set(found) <= {physical, short}


def test_no_batch_is_no_piece() -> None:
    assert split_sizes(0, 16) == []


def laid(*, is_turned: bool) -> Any:
    values = torch.randn(3, 300, 260, generator=torch.Generator().manual_seed(1))
    return values.transpose(1, 2).contiguous().transpose(1, 2) if is_turned else values


@pytest.mark.parametrize("is_turned", [False, True])
def test_cells_come_back_in_the_shape_of_the_weight_however_gradients_lie(is_turned: bool) -> None:
    held, small = laid(is_turned=is_turned), torch.arange(6.0).reshape(3, 2) - 3
    found = {"small": small, "large": held, "single": torch.tensor([1.0, -2.0, 3.0])}
    cells = gradients.sum_clipped_cells(
        found, torch.ones(3, dtype=bool), clip_norm=1e9, grid=2.0**-10
    )
    for name, value in found.items():
        assert torch.equal(cells[name], (value.double() * 2**10).trunc().sum(dim=0).long())


def test_on_a_processor_work_is_called_plainly() -> None:
    total = torch.zeros(2)
    work = ReplayedFunction(total.add_)
    for number in (1.0, 2.0, 3.0):
        work(torch.full((2,), number))
    assert total.tolist() == [6.0, 6.0] and work.num_shapes == 0


@on_gpu
def test_a_replay_does_the_work_with_the_numbers_it_is_given() -> None:
    total, calls = torch.zeros(2, device="cuda"), []

    def work(given: Any) -> None:
        calls.append(given)
        total.add_(given * 2)

    replayed = ReplayedFunction(work)
    for number in range(1, 6):
        replayed(torch.full((2,), float(number), device="cuda"))
    assert total.tolist() == [30.0, 30.0]
    assert len(calls) == 2 and replayed.num_shapes == 1, "once plainly, once recorded"


@on_gpu
def test_work_that_waits_for_the_device_is_called_plainly_every_time() -> None:
    total = torch.zeros(2, device="cuda")

    def work(given: Any) -> None:
        if given.sum().item() > 0:
            total.add_(given)

    replayed = ReplayedFunction(work)
    for number in (1.0, 2.0, -7.0, 3.0):
        replayed(torch.full((2,), number, device="cuda"))
    assert total.tolist() == [6.0, 6.0] and replayed.num_shapes == 0


@on_gpu
def test_clipped_sums_on_a_gpu_are_the_processors() -> None:
    found = {"large": laid(is_turned=True) * 1e-2, "small": laid(is_turned=False)[:, 0]}
    found["small"][1, 4] = torch.nan
    present, scale = torch.tensor([True, True, False]), {"clip_norm": 0.7, "grid": 2.0**-30}
    here = gradients.sum_clipped_cells(found, present, **scale)
    moved = {name: value.cuda() for name, value in found.items()}
    there = gradients.sum_clipped_cells(moved, present.cuda(), **scale)
    for name, value in here.items():  # norms may round by device, a cell a record at the most
        assert value.any() and (value - there[name].cpu()).abs().max() <= 1
