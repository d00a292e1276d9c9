"""Records that are used without noise must not be among those that noise protects."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from masquerade.errors import BadInput
from masquerade.recordings import Photo, Signal, Video


class Apart:
    """Knows public records by their fingerprints, and refuses a private one that is among them.

    Args:
        public: the records that are used without noise.
        is_by_subject: whether people are protected, so that nobody may be in both parts.
    """

    def __init__(self, public: Sequence[Any], *, is_by_subject: bool) -> None:
        self._known = {pixels_sha256(one) for one in public}
        self._people = {one.subject for one in public} - {None} if is_by_subject else set()

    @property
    def sha256(self) -> str:
        """Over all of them: it says which public records a guarantee speaks of."""
        return hashlib.sha256("".join(sorted(self._known)).encode()).hexdigest()

    def check(self, private: Any) -> None:
        """Raise if it is one of the public records, or shows one of their people."""
        if pixels_sha256(private) in self._known:
            raise BadInput(
                "Expected public records that are not among the private ones, got one that is: its "
                "raw gradient would be used without noise. Leave it out of one of them."
            )
        if private.subject in self._people:
            raise BadInput(
                "Expected public records of other people than the private ones, got somebody who "
                "is in both; leave them out of one."
            )


def pixels_sha256(recording: Video | Photo | Signal) -> str:
    """A fingerprint of what a recording shows, whatever is known of it beside."""
    held: np.ndarray = next(
        getattr(recording, name)
        for name in ("frames", "image", "values")
        if hasattr(recording, name)
    )
    found = hashlib.sha256(repr((held.shape, str(held.dtype))).encode())
    found.update(np.ascontiguousarray(held).tobytes())
    return found.hexdigest()
