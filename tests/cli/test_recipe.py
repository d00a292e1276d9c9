"""What earlier versions called recipes: each says where it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("demo", "masquerade demo"),
        ("avatar", "python -m experiments avatar in the project's folder"),
        ("mask_dp", "python -m experiments mask_dp in the project's folder"),
        ("pretrain", "python tools/pretrain.py in the project's folder"),
        ("world", "python tools/gallery.py in the project's folder"),
    ],
)
def test_a_recipe_says_where_it_went_whatever_its_flags_are(
    command: Any, name: str, said: str
) -> None:
    for flags in ((), ("--quick", "--epsilons", "1", "inf"), ("--help",)):
        done = command("recipe", name, *flags)
        assert done.code == 2 and f"got {name}, which moved: {said}." in done.err
    assert "exit_code" in command("recipe", name, "--json").err


def test_what_never_was_one_is_refused(command: Any) -> None:
    done = command("recipe", "fims")
    assert done.code == 2 and "Unknown recipe 'fims'" in done.err and "mask_dp" in done.err


def test_the_tools_that_are_named_are_there() -> None:
    from masquerade.cli.recipe import _TOOL_NAMES

    for file in _TOOL_NAMES.values():
        assert (REPO / "tools" / f"{file}.py").is_file()
