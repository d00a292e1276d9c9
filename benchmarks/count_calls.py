"""How many functions of ours a command calls: after all imports, in a process of its own.

    python benchmarks/count_calls.py [TREE ...]

Each tree, a checkout, is measured with its own ``src``. A first process finds out which modules a
case loads; a second one imports them and counts what is called. With SHOW=1 every function is
named on standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

# functions whose own calls are shown
ONCE = ("scale", "compute_scale", "guarantee", "as_unit", "plan")
HEAVY = (
    "masquerade.networks.mvit_layers",
    "masquerade.networks.lstm",
    "masquerade.networks.tiny_vit_layers",
    "torch",
    "av",
)
ROWS = {"epsilon": 8, "delta": 1e-5, "unit": "frame", "low": 30, "high": 220}
PIXELS = {"epsilon": 8, "delta": 1e-4, "unit": "pixels", "pixels": 256}
TRAIN = "--method dp_sgd --data stage --epsilon 8 --unit subject --dry-run"
CASES: dict[str, str | tuple[str, str, dict[str, Any]]] = {
    "csv, command": "release heart.csv out.csv --heading --mechanism gaussian_noise "
    "--epsilon 8 --delta 1e-5 --unit frame --low 30 --high 220",
    "csv, Python": ("heart.csv", "gaussian_noise", ROWS),
    "film, command": "release ward.mp4 out.mp4 --mechanism cosine_gaussian --epsilon 8 "
    "--delta 1e-4 --unit pixels --pixels 256",
    "film, Python": ("ward.mp4", "cosine_gaussian", PIXELS),
    "train --dry-run": f"train model.safetensors {TRAIN}",
}


def run_case(case: str) -> None:
    """A command, or a release from Python."""
    import masquerade
    from masquerade.cli import main

    chosen = CASES[case]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        if isinstance(chosen, str):
            main(chosen.split())
            return
        source, name, fields = chosen
        masquerade.release_file(
            source,
            f"out{Path(source).suffix}",
            masquerade.make_mechanism(name, **fields),
            options=masquerade.FileSettings(heading=source.endswith(".csv"), is_watched=False),
        )


def list_modules(case: str) -> None:
    """Print which modules a case has loaded."""
    run_case(case)
    print(json.dumps(list(sys.modules)))


def count_calls(case: str, modules: list[str]) -> None:
    """Print what a case calls."""
    for name in modules:
        importlib.import_module(name)
    import masquerade

    root, calls = str(Path(masquerade.__file__).parent), Counter[tuple[str, int, str]]()

    def see(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_name[0] != "<":
            calls[code.co_filename.removeprefix(root), code.co_firstlineno, code.co_name] += 1

    threading.setprofile(see)
    sys.setprofile(see)
    run_case(case)
    sys.setprofile(None)
    if "SHOW" in os.environ:
        for key, number in sorted(calls.items()):
            print(*key, number, file=sys.stderr)
    found = {
        "calls": calls.total(),
        "functions": len(calls),
        "files": len({file for file, _, _ in calls}),
        **{name: sum(n for key, n in calls.items() if key[2] == name) for name in ONCE},
    }
    print(json.dumps(found))


def measure_tree(tree: Path, case: str) -> list[Any]:
    """One case, in a folder of its own."""
    environment = os.environ | {"PYTHONPATH": str(tree.resolve() / "src")}

    def run(*words: str) -> Any:
        made = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, check=True, stdout=-1
        )
        return made.stdout

    script = str(Path(__file__).resolve())
    with tempfile.TemporaryDirectory() as folder:
        run("-m", "masquerade", "data", "sample")
        every = json.loads(run(script, "--list", case))
        modules = [name for name in every if name.startswith("masquerade")]
        for path in Path(folder).glob("out.*"):
            path.unlink()
        found = json.loads(run(script, "--count", case, *modules))
    heavy = [name.rpartition(".")[2] for name in HEAVY if name in every]
    return [*found.values(), len(modules), ", ".join(heavy)]


def main() -> None:
    """A table of all trees and cases."""
    if sys.argv[1:2] == ["--list"]:
        list_modules(sys.argv[2])
    elif sys.argv[1:2] == ["--count"]:
        count_calls(sys.argv[2], sys.argv[3:])
    else:
        heads = ("case", "tree", "calls", "functions", "files", *ONCE, "modules of ours", "heavy")
        print("|", " | ".join(heads), "|")
        print("|---" * len(heads) + "|")
        trees = [Path(word) for word in sys.argv[1:]] or [Path(__file__).parents[1]]
        for case in CASES:
            for tree in trees:
                row = [case, tree, *measure_tree(tree, case)]
                print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
