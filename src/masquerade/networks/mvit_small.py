"""Version 2 in six blocks for 64 x 64 pixels: learns on two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masquerade.networks.film_network import FilmNetwork


@dataclass(frozen=True, kw_only=True)
class MvitSmall(FilmNetwork):
    """Version 2 in six blocks for 64 x 64 pixels: learns on two cores."""

    HAS_WEIGHTS: ClassVar[bool] = True
