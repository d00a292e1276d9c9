"""Say where a recipe of earlier versions went: to the demo, the experiments or the tools."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade.cli.flags import Positional
from masquerade.result import Answer

_EXPERIMENTS = (
    *("audits", "avatar", "mask_dp", "papers", "pose", "ppedcrf", "tempdiff", "video_dprp"),
)
_TOOLS = {"world": "gallery"} | {
    name: name for name in ("anonymise", "figures", "gallery", "place_training", "pretrain")
}
_MOVED = {
    "demo": "masquerade demo",
    **{name: f"python -m experiments {name} in the project's folder" for name in _EXPERIMENTS},
    **{name: f"python tools/{file}.py in the project's folder" for name, file in _TOOLS.items()},
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Say where a recipe of earlier versions went; it runs nothing, and exits with 2.

    Args:
        name: of the recipe.
    """

    name: Positional[str] = ""

    def run(self) -> Answer:
        """Refuse, and say what to give instead."""
        if self.name not in _MOVED:
            raise ValueError(_check.unknown("recipe", self.name, sorted(_MOVED)))
        raise ValueError(f"Expected no recipe, got {self.name}, which moved: {_MOVED[self.name]}.")


COMMAND = Recipe
