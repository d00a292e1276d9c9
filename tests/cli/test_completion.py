"""What a shell offers: commands, entries, flags and the words that they take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import python
from masquerade.cli.completion import suggestions

ASKED = {
    "re": {"receipt", "recipe", "release", "report"},
    "receipt ": {"check", "keygen", "sign", "--help"},
    "attack re": {"reconstruct", "reidentify"},
    "release a b --mechanism co": {"cosine_gaussian"},
    "release a b --mechanism cosine_gaussian --pi": {"--pixels"},
    "release a b --mechanism blur --pi": set(),
    "release a b --mechanism cosine_gaussian --unit t": {"tube"},
    "release a b --backend th": {"threading"},
    "train m --method mask_dp --data sta": {"stage"},
    "release --dry-run --dr": set(),  # it was given
    "release war": set(),  # a file, which the shell completes
    "recipe de": {"demo"},
    "nothing ": set(),
}


@pytest.mark.parametrize("typed", ASKED)
def test_the_next_word_is_offered(typed: str) -> None:
    assert set(suggestions(typed.split(" "))) == ASKED[typed]


def test_nothing_heavy_is_imported_to_suggest() -> None:
    said = python(
        """
import sys
from masquerade.cli.completion import suggestions
assert "cosine_gaussian" in suggestions(["release", "--mechanism", ""])
print({"numpy", "tyro", "torch", "av"} & set(sys.modules))
"""
    )
    assert said.strip() == "set()"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_the_lines_that_are_printed(command: Any, tmp_path: Path) -> None:
    program = tmp_path / "masquerade"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m masquerade "$@"\n')
    program.chmod(0o755)
    lines = command("completion", "bash").out
    script = f"""{lines}
COMP_WORDS=(masquerade release a.mp4 b.mp4 --mechanism cos); COMP_CWORD=5
_masquerade
echo "${{COMPREPLY[@]}}"
COMP_WORDS=(masquerade receipt ""); COMP_CWORD=2
_masquerade
echo "${{COMPREPLY[@]}}"
"""
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, **path}, capture_output=True, text=True
    )
    first, second = done.stdout.splitlines()
    assert first == "cosine_gaussian"
    assert set(second.split()) == {"check", "keygen", "sign", "--help"}, done.stderr


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_each_shell_gets_its_lines(shell: str, command: Any) -> None:
    said = command("completion", shell)
    assert said.code == 0 and "completion suggest" in said.out
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=said.out, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr
