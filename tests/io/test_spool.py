"""What waits on disk comes back as it was, whoever asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from masquerade.io.streams import MaskSpool, Spool


@pytest.mark.parametrize("is_packed", [False, True])
def test_threads_that_add_and_read_get_their_own_pieces(is_packed: bool) -> None:
    pieces = [bytes([number]) * (1 + 97 * number) for number in range(200)]
    with Spool(is_packed=is_packed) as spool:
        for piece in pieces[:100]:
            spool.add_piece(piece)

        def reads(seed: int) -> bool:
            order = np.random.default_rng(seed).integers(0, 100, 3000).tolist()
            return all(spool[number] == pieces[number] for number in order)

        def adds() -> bool:
            return [spool.add_piece(piece) for piece in pieces[100:]] == list(range(100, 200))

        with ThreadPoolExecutor(4) as pool:
            found = [pool.submit(reads, seed) for seed in range(3)] + [pool.submit(adds)]
            assert all(each.result() for each in found)
        assert [spool[number] for number in range(200)] == pieces


def test_a_mask_can_be_put_in_the_place_of_another() -> None:
    masks = np.random.default_rng(0).random((3, 5, 11)) > 0.5
    held = MaskSpool(5, 11)
    for mask in masks:
        held.add_mask(mask)
    held.replace_mask(1, ~masks[1])
    assert np.array_equal(held[0], masks[0]) and np.array_equal(held[1], ~masks[1])
    assert len(held) == 3
    held.close()


def test_a_piece_that_was_never_added_is_refused() -> None:
    with Spool() as spool, pytest.raises(IndexError, match="Expected a number below 0, got 0"):
        spool[0]
