"""MViT-B [fan2021], for 224 x 224 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.networks.film_network import FilmNetwork


@dataclass(frozen=True, kw_only=True)
class MvitV1B(FilmNetwork):
    """MViT-B [fan2021], for 224 x 224 pixels."""
