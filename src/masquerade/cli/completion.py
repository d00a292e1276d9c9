"""Let the shell complete commands, flags, mechanisms and units: bash, zsh or fish."""

from __future__ import annotations

import re
from dataclasses import dataclass

from masquerade import _source, catalog
from masquerade._source import Flag, SourceClass
from masquerade.cli import help_page
from masquerade.result import Answer

_BASH = """_masquerade() {
    local said
    local typed="${COMP_WORDS[*]:1:COMP_CWORD}|"
    said="$("${COMP_WORDS[0]}" completion suggest --words="$typed" 2>/dev/null)"
    mapfile -t COMPREPLY < <(compgen -W "$said" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -o bashdefault -F _masquerade masquerade"""
_ZSH = """#compdef masquerade
_masquerade() {
    local -a said
    said=("${(@f)$("${words[1]}" completion suggest --words="${words[2,CURRENT]}|" 2>/dev/null)}")
    if [[ -n "${said[1]}" ]]; then compadd -- "${said[@]}"; else _files; fi
}
compdef _masquerade masquerade"""
_FISH = """function __masquerade
    set -l words (commandline -opc)[2..] (commandline -ct)
    set -l program (commandline -opc)[1]
    $program completion suggest --words="$words|" 2>/dev/null
end
complete -c masquerade -a '(__masquerade)'"""


@dataclass(frozen=True, kw_only=True)
class Bash:
    """Print the lines for bash.

    Example:
        masquerade completion bash >> ~/.bashrc
    """

    def run(self) -> Answer:
        """Print them."""
        return _script(_BASH)


@dataclass(frozen=True, kw_only=True)
class Zsh:
    """Print the lines for zsh; they go after compinit.

    Example:
        masquerade completion zsh >> ~/.zshrc
    """

    def run(self) -> Answer:
        """Print them."""
        return _script(_ZSH)


@dataclass(frozen=True, kw_only=True)
class Fish:
    """Print the lines for fish.

    Example:
        masquerade completion fish > ~/.config/fish/completions/masquerade.fish
    """

    def run(self) -> Answer:
        """Print them."""
        return _script(_FISH)


@dataclass(frozen=True, kw_only=True)
class Suggest:
    """List what can come next; the shells ask for it.

    Args:
        words: what was typed after masquerade; the last word, which may be empty, ends in a bar.
    """

    words: str = ""

    def run(self) -> Answer:
        """List it."""
        found = suggestions(re.split(r"\s+", self.words.removesuffix("|")))
        return Answer(data={"suggestions": found}, lines=found)


def _script(text: str) -> Answer:
    return Answer(data={"script": text}, lines=text.splitlines())


def suggestions(words: list[str]) -> list[str]:
    """What can stand in the place of the last word, which may be empty or begun.

    Example:
        >>> suggestions(["rel"])
        ['release']
        >>> suggestions(["release", "a.mp4", "b.mp4", "--mechanism", "cos"])
        ['cosine_gaussian']
    """
    *before, last = words or [""]
    return [each for each in _possible(before, last) if each.startswith(last)]


def _possible(before: list[str], last: str) -> list[str]:
    """All that may come after some words."""
    verbs = help_page.verbs()
    if not before:
        return [*verbs, "--help", "--version"]
    verb, rest = before[0], before[1:]
    if verb not in verbs:
        return []
    several, name = help_page.commands(verb), None
    if several is not None:
        if not rest:
            return [*several, "--help"]
        name, rest = rest[0], rest[1:]
    of = help_page.command_class(verb, name)
    return [] if of is None else _after(of, rest, last)


def _after(of: SourceClass, rest: list[str], last: str) -> list[str]:
    """What may come after the words of one command."""
    rooms = {flag: room for flag, room, *_ in help_page.wanted(of)}
    if "" in rooms and not [word for word in rest if not word.startswith("-")] and last[:1] != "-":
        return list(catalog.names(rooms[""]))
    chosen = [(flag, room, _given(rest, flag, room)) for flag, room in rooms.items()]
    every = _source.flags(of)
    for _, own in help_page.entries_of(of, chosen):
        every |= {each.name: each for each in own}
    named = {help_page.spelled(each): each for each in every.values() if not each.is_positional}
    previous = rest[-1] if rest else ""
    if previous.removeprefix("--") in rooms and previous.startswith("--"):
        return list(catalog.names(rooms[previous.removeprefix("--")]))
    if previous in named and named[previous].takes:
        return _values(named[previous])
    if not last.startswith("-"):
        return []  # files, which the shell knows
    flags = [*(f"--{flag}" for flag in rooms if flag), *named, "--json", "--help"]
    return [each for each in flags if each not in rest]


def _given(rest: list[str], flag: str, room: str) -> str | None:
    """The entry that the words name."""
    if not flag:
        found = next((word for word in rest if not word.startswith("-")), None)
    else:
        places = [place for place, word in enumerate(rest[:-1]) if word == f"--{flag}"]
        found = rest[places[0] + 1] if places else None
    return found if found in catalog.names(room) else None


def _values(flag: Flag) -> list[str]:
    """What can be given with a flag."""
    if flag.name == "unit":
        return list(_source.texts("masquerade.guarantee", "PROTECTS"))
    choices = flag.takes.split()[0].split("|")
    return choices if len(choices) > 1 else []


COMMANDS = {"bash": Bash, "fish": Fish, "suggest": Suggest, "zsh": Zsh}
