"""The file of a network: the listed asset, or one that the user brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from masquerade import assets


@dataclass(frozen=True)
class NetworkFile:
    """Where a network's weights are, and how a report names them.

    Args:
        asset: on the list.
        own: the user's file in its place, if there is one.
    """

    asset: str
    own: Path | None = None

    def path(self) -> Path:
        """The file; the asset is fetched if it is not in the cache.

        Raises:
            BadInput: if the asset is not what it should be.
            OSError: if no place that has it can be reached.
        """
        return assets.fetch(self.asset) if self.own is None else self.own

    def __str__(self) -> str:
        if self.own is not None:
            return self.own.name
        return f"{self.asset} SHA-256 {assets.find(self.asset).sha256}"


def in_words(*files: NetworkFile) -> str:
    """What looked, for a report or a receipt."""
    return ", ".join(map(str, files))
