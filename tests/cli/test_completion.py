"""What a shell offers: commands, entries, flags and the words that they take."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

ASKED = {
    "re": {"receipt", "recipe", "release", "report"},
    "receipt ": {"check", "keygen", "sign", "--help", "-h"},
    "release a b --mechanism co": {"cosine_gaussian"},
    "release a b --mechanism cosine_gaussian --pi": {"--pixels"},
    "release a b --mechanism cosine_gaussian --unit t": {"tube"},
    "release a b --backend th": {"threading"},
    "train m --method mask_dp --data sta": {"stage"},
    "release war": set(),  # a file, which the shell completes
    "de": {"demo"},
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_the_next_word_with_the_lines_that_are_printed(command: Any) -> None:
    script = command("completion", "bash").out
    for typed in ASKED:
        words = " ".join(f"'{word}'" for word in ("masquerade", *typed.split(" ")))
        place = len(typed.split(" "))
        script += f"\nCOMP_WORDS=({words}); COMP_CWORD={place}\n_tyro_masquerade\n"
        script += 'echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True)
    offered = [set(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(ASKED, offered, strict=True)) == ASKED, done.stderr


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_each_shell_gets_its_lines(shell: str, command: Any) -> None:
    said = command("completion", shell)
    assert said.code == 0 and "--mechanism" in said.out
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=said.out, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr
