"""Public recordings beside the private ones, for methods that are guided by some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.collection import Collection
from masquerade.recordings import Signal
from masquerade.train.method import Method
from masquerade.train.projecting import Projecting


def guides_of(data: Collection[Any], method: Method) -> Collection[Any] | Sequence[Signal]:
    """Public recordings beside the private ones, where a method needs some."""
    if not isinstance(method, Projecting):
        return ()
    if "public" not in data.parts:
        raise ValueError(
            f"Expected a data set with a public part for {method.name}, which finds its subspace "
            f"by public recordings, got {data.ABOUT.title}; use dp_sgd or feature_dp, or train in "
            "Python with public= recordings of your own."
        )
    return data.part("public")
