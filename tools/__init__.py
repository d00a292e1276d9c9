"""What makes the package's weights and the docs' pictures; no part of the wheel.

Each is run from a checkout by its file: ``python tools/pretrain.py --help``.
"""

from __future__ import annotations

import sys
from typing import Any

from masquerade.errors import exit_code, message


def run_tool(tool: type[Any]) -> None:
    """Run one from the command line: its flags are its fields."""
    import tyro

    rules = tyro.conf
    config = (rules.FlagCreatePairsOff, rules.EnumChoicesFromValues)
    try:
        print("\n".join(tyro.cli(tool, config=config).run().lines))
    except Exception as error:
        if exit_code(error) == 1:
            raise
        sys.exit(f"{message(error, '')}")
