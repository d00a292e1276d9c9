"""Seeds of a rehearsal of many files; a rehearsal protects nothing."""

from __future__ import annotations

_APART = 1_000_003  # between two folders' seeds: more than a folder has files


def folder_seed(seed: int, place: int) -> int:
    """The seed of one file of a folder that is rehearsed.

    Args:
        seed: of the whole rehearsal.
        place: of the file, in the order of private names.

    Example:
        >>> folder_seed(0, 3), folder_seed(2, 0)
        (3, 2000006)
    """
    return seed * _APART + place
