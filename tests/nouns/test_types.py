"""Tensors, arrays and networks have their own types where the checker can see them."""

from __future__ import annotations

import re

import pytest
from test_architecture import FILES, ROOT

from conftest import python

DONE = (
    *("avatars", "io", "mechanisms", "noise", "places", "vision/transforms"),
    *("networks/small_networks.py", "networks/lstm", "networks/mvit", "networks/weight_files.py"),
    *("training/gradients.py", "training/loop.py"),
    *("training/step.py", "training/teach.py", "training/teachers.py", "training/votes.py"),
)
ALLOWED = ("Array: TypeAlias = Any  # numpy.ndarray or torch.Tensor",)  # of both at once
LOOSE = re.compile(
    r"\b(Tensors?|Network|Module|Function|Array)\b(: *Any\b|[^=]*= *(Any\b|dict\[str, Any\]))"
    r"|\b(net|tail|trunk|stack|inputs|targets|windows|weights|device|frames)\w*: *Any\b"
    r"|\b(torch|nn) = require\(|type: ignore\[misc\]"
)


def loose(text: str) -> list[str]:
    return [
        line.strip()
        for line in text.splitlines()
        if LOOSE.search(line) and not line.startswith(ALLOWED)
    ]


def test_tensors_and_networks_are_not_any() -> None:
    names = {path: str(path.relative_to(ROOT)) for path in FILES}
    done = [path for path in FILES if names[path].startswith(DONE)]
    assert all(any(names[path].startswith(part) for path in done) for part in DONE)
    assert {names[p]: found for p in done if (found := loose(p.read_text()))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "Tensor = Any  # torch.Tensor",
        "Tensors: TypeAlias = dict[str, Any]",
        "Module: Any = nn.Module",
        'torch = require("torch", extra="train")',
        "def run(net: Any, rows: Rows) -> None:",
        "class Stack(Module):  # type: ignore[misc]",
    ],
)
def test_the_test_of_types_can_fail(line: str) -> None:
    assert loose(line)


def test_what_needs_torch_only_on_a_gpu_does_not_import_it() -> None:
    code = (
        "import sys, masquerade.mechanisms.random_projection, masquerade.mechanisms.video_dprp, "
        "masquerade.noise"
    )
    assert "torch" not in python(f"{code}; print(' '.join(sys.modules))").split()


def test_where_torch_is_missing_the_line_that_installs_it_is_said() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from masquerade.errors import MissingExtra\n"
        "try:\n    import masquerade.networks.lstm_stack\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    assert "torch is needed here" in (said := python(code)) and "masquerade[train]" in said
