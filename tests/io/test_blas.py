"""One thread for products while others work, and as many as before when all have left."""

from __future__ import annotations

import contextlib

import numpy as np
from threadpoolctl import threadpool_info

from masquerade.io import devices


def threads() -> set[int]:
    np.ones((4, 4)) @ np.ones((4, 4))
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_products_use_one_thread_inside_and_as_many_as_before_after() -> None:
    before = threads()
    with devices.one_thread():
        assert threads() == {1}
    assert threads() == before


def test_the_last_one_to_leave_restores_what_was() -> None:
    before = threads()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(devices.one_thread())
    second.enter_context(devices.one_thread())
    first.close()
    assert threads() == {1}
    second.close()
    assert threads() == before
