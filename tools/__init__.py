"""What makes the package's weights and the docs' pictures; no part of the wheel.

Each is run from a checkout by its file: ``python tools/pretrain.py --help``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from masquerade.errors import exit_code, format_error


def run_tool(tool: type[Any], words: Sequence[str] | None = None) -> None:
    """Run one by its flags, which are its fields; with ``--json`` one object is printed."""
    import tyro

    rules = tyro.conf
    config = (rules.FlagCreatePairsOff, rules.EnumChoicesFromValues)
    given = list(sys.argv[1:] if words is None else words)
    try:
        answer = tyro.cli(tool, args=[one for one in given if one != "--json"], config=config).run()
    except Exception as error:
        code = exit_code(error)
        if code == 1:
            raise
        print(format_error(error, ""), file=sys.stderr)
        sys.exit(code)
    print(json.dumps(answer.data) if "--json" in given else "\n".join(answer.lines))
