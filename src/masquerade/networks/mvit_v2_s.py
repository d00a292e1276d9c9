"""MViTv2-S [li2022], for 224 x 224 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.networks.film_network import FilmNetwork


@dataclass(frozen=True, kw_only=True)
class MvitV2S(FilmNetwork):
    """MViTv2-S [li2022], for 224 x 224 pixels."""
