"""Help is read from the classes, which are light: it comes at once, and says what they say."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conftest import python
from masquerade import catalog, cli
from masquerade.cli import flags
from masquerade.errors import MissingExtra

COMPUTED = {"sensors"}  # defaults that no source says plainly, so that none is shown
ROOMS = (
    "accounting.published",
    "attacks",
    "audits",
    "datasets",
    "mechanisms",
    "networks",
    "training",
)


def all_commands() -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for verb in cli.VERBS:
        door = import_module(f"masquerade.cli.{verb}")
        several = getattr(door, "COMMANDS", None)
        found += [(verb, None)] if several is None else [(verb, name) for name in several]
    return found


def agrees(cls: type) -> None:
    """Names, order of the needed, defaults and what is positional are those of the class."""
    read = flags.list_flags(cls)
    own = {each.name: each for each in dataclasses.fields(cls) if each.init}  # type: ignore[arg-type]
    assert set(read) == set(own)
    for name, flag in read.items():
        each = own[name]
        is_needed = each.default is each.default_factory  # both MISSING
        assert flag.is_needed == is_needed, name
        assert flag.is_positional == str(each.type).startswith("Positional["), name
        assert flag.takes != "VALUE" and flag.about, name
        if each.default_factory is dataclasses.MISSING and not is_needed:
            assert flag.usual == shown(each.default), name


def shown(default: Any) -> str:
    if default is None or default is False or default == ():
        return ""
    if isinstance(default, tuple):
        return " ".join(str(each) for each in default)
    return str(default)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_line_of_a_verb_is_the_first_of_its_file(verb: str) -> None:
    about = import_module(f"masquerade.cli.{verb}").__doc__ or ""
    assert about.partition("\n")[0] == cli.VERBS[verb]


@pytest.mark.parametrize(("verb", "name"), all_commands())
def test_the_help_of_a_command_is_what_its_class_has(verb: str, name: str | None) -> None:
    try:
        door = import_module(f"masquerade.cli.{verb}")
        cls = door.COMMAND if name is None else door.COMMANDS[name]
    except MissingExtra as missing:
        pytest.skip(str(missing))
    agrees(cls)


@pytest.mark.parametrize(
    ("room", "name"), [(room, x) for room in ROOMS for x in catalog.list_entries(room)]
)
def test_the_help_of_an_entry_is_what_its_class_has(room: str, name: str) -> None:
    agrees(catalog.load_class(room, name))


@pytest.mark.parametrize("room", ROOMS)
def test_the_classes_of_a_room_import_nothing_heavy(room: str) -> None:
    """All of them at once; what they need is imported when they are used."""
    said = python(
        f"""
import sys
from masquerade import catalog
for name in catalog.list_entries({room!r}):
    catalog.load_class({room!r}, name)
print(sorted({{"torch", "cv2", "scipy", "numba"}} & set(sys.modules)))
"""
    )
    assert said.strip() == "[]"


@pytest.mark.parametrize(("verb", "name"), all_commands())
def test_no_word_of_the_parser_stands_in_the_help(
    verb: str, name: str | None, command: Any
) -> None:
    said = command(*([verb] if name is None else [verb, name]), "--help")
    assert said.code == 0
    assert said.out.startswith(f"usage: masquerade {verb}")
    assert not re.search(r"entry.\d|options options|\{None\}|PATH PATH|MISSING", said.out)
    assert max(map(len, said.out.splitlines())) <= 100


def test_help_of_a_release_begins_with_what_is_protected_and_has_an_example(command: Any) -> None:
    said = command("release", "--help").out
    for word in ("--unit TEXT", "--mechanism NAME", "--epsilon X", "--delta X", "--pixels N"):
        assert word in said, word
    assert said.index("What is protected") < said.index("Flags")
    assert said.index("cosine_gaussian  ") < said.index("without a proof") < said.index("  blur ")
    one = command("release", "--mechanism", "cosine_gaussian", "--help").out
    assert "--pixels N" in one and "tube" in one and "shard" not in one


SLIPS = (
    "relese",
    "release --mechanism blurr",
    "release a.mp4 b.mp4 --mechanism blur",  # there is no a.mp4
    "release a.mp4 b.mp4 --mechanism pooled_gaussian --epsilon 8 --unit person",
    "release a.mp4 --mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit frame",
    "train --method none",
    "train --method mask_dp --data stage --epsilon one --unit subject m.safetensors",
    "train --method mask_dp --data stage --epsilon 1 --unit person m.safetensors",
    "evaluate m.safetensors --dat stage",
    "demo --ou here",
    "audit --trails 3",
    "attack reidentfy",
)


def test_help_and_refusals_import_nothing_heavy() -> None:
    """None of what takes long to load, in any of them."""
    words = [[verb, *([name] if name else []), "--help"] for verb, name in all_commands()]
    words = [each for each in words if each[0] != "recipe"]  # experiments are no part of it
    words += [slip.split() for slip in SLIPS]
    said = python(
        f"""
import sys, io, contextlib
from masquerade import cli
for words in {words!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main(words)
        except SystemExit as stop:
            assert bool(stop.code) is ("--help" not in words), words
    heavy = {{"scipy", "torch", "cv2", "numba", "tyro"}} & set(sys.modules)
    assert not heavy, (words, heavy)
print("light")
"""
    )
    assert said.strip() == "light"


MISTAKES = {
    "a flag with a slip": (("--epsilom", "1", "--delta", "1e-6"), "Did you mean --epsilon?"),
    "nothing of what is needed": ((), "Expected --epsilon and --delta as well"),
    "a word for a number": (("--epsilon", "one", "--delta", "1e-6"), "--epsilon.*'one'"),
    "a unit as people say it": (
        ("--epsilon", "1", "--delta", "1e-6", "--unit", "person"),
        "did you mean subject or tube",
    ),
    "a unit as people say it, before all else is there": (
        ("--epsilon", "1", "--unit", "person"),
        "did you mean subject or tube.*frame +one whole frame",
    ),
    "sites that are missing": (
        ("--epsilon", "1", "--delta", "1e-6", "--unit", "pixels"),
        "--unit pixels needs --pixels N, for example --pixels 256",
    ),
    "a flag without its value": (("--epsilon", "--delta", "1e-6"), "a value after --epsilon"),
    "a choice that is none": (
        ("--epsilon", "1", "--delta", "1e-6", "--backend", "dusk"),
        "loky, threading, dask or ray after --backend, got 'dusk'. Did you mean dask?",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_was_meant(
    mistake: str, command: Any, tmp_path: Path
) -> None:
    words, said = MISTAKES[mistake]
    files = (tmp_path / "a.mp4", tmp_path / "b.mp4")
    done = command("release", *files, "--mechanism", "pooled_gaussian", *words)
    assert done.code == 2
    assert re.search(re.escape(said) if "?" in said else said, done.err, re.DOTALL)
    assert "entry" not in done.err and "─" not in done.err


def test_a_word_too_many_is_named(command: Any) -> None:
    done = command("receipt", "keygen", "a.pem", "b.pem")
    assert done.code == 2 and "Expected KEY alone, got 'b.pem' as well" in done.err


def test_words_that_are_missing_are_named(command: Any) -> None:
    given = ("--epsilon", "1", "--delta", "1e-6")
    done = command("release", "a.mp4", "--mechanism", "pooled_gaussian", *given)
    assert done.code == 2 and "Expected OUTPUT as well" in done.err
