"""Say where a recipe of earlier versions went: to the demo, the experiments or the tools."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade.cli.flags import Positional
from masquerade.result import CommandResult

_EXPERIMENTS = (
    *("audits", "avatar", "mask_dp", "papers", "pose", "ppedcrf", "tempdiff", "video_dprp"),
)
_TOOL_NAMES = {"world": "gallery"} | {
    name: name for name in ("anonymise", "figures", "gallery", "place_training", "pretrain")
}
_NEW_COMMANDS = {
    "demo": "masquerade demo",
    **{name: f"python -m experiments {name} in the project's folder" for name in _EXPERIMENTS},
    **{
        name: f"python tools/{file}.py in the project's folder"
        for name, file in _TOOL_NAMES.items()
    },
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Say where a recipe of earlier versions went; it runs nothing, and exits with 2.

    Args:
        name: of the recipe.
    """

    name: Positional[str] = ""

    def run(self) -> CommandResult:
        """Refuse, and say what to give instead."""
        if self.name not in _NEW_COMMANDS:
            raise ValueError(_check.describe_unknown("recipe", self.name, sorted(_NEW_COMMANDS)))
        raise ValueError(
            f"Expected no recipe, got {self.name}, which moved: {_NEW_COMMANDS[self.name]}."
        )


COMMAND = Recipe
