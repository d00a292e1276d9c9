"""What a class asks for, read from its source: nothing is imported, so that help comes at once.

A command or an entry of a room is a dataclass whose fields are flags. Its file, and those of the
classes that it is built on, say all there is to say of them.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from masquerade import catalog

_ROOT = Path(__file__).parent
_WORDS = {"Path": "PATH", "int": "N", "float": "X", "str": "TEXT"}
_SECTIONS = ("Args:", "Guarantee:", "Example:", "Raises:", "Returns:", "What is not certain:")


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One field of a command or an entry.

    Args:
        name: of the field.
        takes: what is given with it, in a word; empty for a switch.
        usual: its value where it is not given, as one would type it; empty where that is nothing.
        about: what its class says of it.
        is_positional: whether it is given without its name.
        is_needed: whether it has no default.
    """

    name: str
    takes: str
    usual: str
    about: str
    is_positional: bool
    is_needed: bool


@dataclass(frozen=True)
class SourceClass:
    """A class as it stands in a file.

    Args:
        module: its file, such as ``masquerade.cli.release``.
        node: its definition.
    """

    module: str
    node: ast.ClassDef

    @property
    def about(self) -> str:
        """Its documentation."""
        return ast.get_docstring(self.node) or ""

    @property
    def summary(self) -> str:
        """The first line of it."""
        return self.about.partition("\n")[0]

    @property
    def prose(self) -> str:
        """What stands before its sections, without the first line."""
        lines = self.about.splitlines()[1:]
        ends = [place for place, line in enumerate(lines) if line.strip() in _SECTIONS]
        return "\n".join(lines[: ends[0] if ends else None]).strip().replace("``", "")

    def section(self, name: str) -> list[str]:
        """The lines of a section, less their indent."""
        _, _, rest = self.about.partition(f"\n{name}:\n")
        lines = []
        for line in rest.splitlines():
            if line.strip() and not line.startswith("    "):
                break
            lines.append(line[4:])
        return lines

    def assigned(self, name: str) -> Any:
        """The literal that a class variable is, or None."""
        for node in self.node.body:
            if isinstance(node, ast.AnnAssign) and _is_named(node.target, name) and node.value:
                return ast.literal_eval(node.value)
        return None

    def parents(self) -> Iterator[SourceClass]:
        """The classes of ours that it is built on."""
        for base in self.node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(name, ast.Name) and (found := class_of(self.module, name.id)) is not None:
                yield found


def flags(of: SourceClass) -> dict[str, Flag]:
    """The fields of a dataclass and of those that it is built on, as Python orders them."""
    found: dict[str, Flag] = {}
    for parent in reversed(list(of.parents())):
        found |= flags(parent)
    about = _arguments(of)
    for node in of.node.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        name, hint = node.target.id, ast.unparse(node.annotation)
        if name.startswith("_") or hint.startswith(("ClassVar", "InitVar")) or _is_inner(node):
            continue
        before = found[name].about if name in found else ""
        found[name] = Flag(
            name=name,
            takes=_takes(node.annotation, of.module),
            usual="" if node.value is None else _shown(node.value, of.module),
            about=about.get(name, before),
            is_positional=hint.startswith("Positional["),
            is_needed=node.value is None,
        )
    return {name: _described(flag, about) for name, flag in found.items()}


def class_of(module: str, name: str) -> SourceClass | None:
    """The class that a name means in a file, followed to the file that defines it."""
    node = _named(module, name)
    if isinstance(node, ast.ClassDef):
        return SourceClass(module, node)
    if isinstance(node, tuple):
        return class_of(*node)
    return None


def entry(room: str, name: str) -> SourceClass | None:
    """The class of a room's ``EXAMPLE``."""
    module = catalog.module_of(room, name)
    node = _named(module, "EXAMPLE")
    made = node.func if isinstance(node, ast.Call) else None
    return class_of(module, made.id) if isinstance(made, ast.Name) else None


def mapping(module: str, name: str) -> dict[str, str] | None:
    """A dict of texts and names that a file assigns, such as its commands; None if it is none."""
    node = _named(module, name)
    if not isinstance(node, ast.Dict):
        return None
    return {ast.literal_eval(key): ast.unparse(value) for key, value in _pairs(node)}


def assigned_name(module: str, name: str) -> str | None:
    """The name to which a file sets another name."""
    node = _named(module, name)
    return node.id if isinstance(node, ast.Name) else None


def listed(of: SourceClass, name: str) -> tuple[str, ...]:
    """The members of an enumeration that a class, or one that it is built on, lists as ``name``."""
    for node in of.node.body:
        if isinstance(node, ast.AnnAssign) and _is_named(node.target, name):
            items = node.value.elts if isinstance(node.value, ast.Tuple) else []
            return tuple(ast.unparse(each).rpartition(".")[2].lower() for each in items)
    found = (listed(parent, name) for parent in of.parents())
    return next((each for each in found if each), ())


def texts(module: str, name: str) -> dict[str, str]:
    """A dict of members and texts that a file assigns: the members' names in small letters."""
    node = _named(module, name)
    assert isinstance(node, ast.Dict)
    return {
        ast.unparse(key).rpartition(".")[2].lower(): ast.literal_eval(value)
        for key, value in _pairs(node)
    }


def _pairs(node: ast.Dict) -> Iterator[tuple[ast.expr, ast.expr]]:
    return ((key, value) for key, value in zip(node.keys, node.values, strict=True) if key)


@cache
def _names(module: str) -> dict[str, Any]:
    """What a file's top level says of each name: a node, or the file and name it is taken from."""
    path = _path(module)
    if path is None:
        return {}
    found: dict[str, Any] = {}
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in (
        *body,
        *(inner for each in body if isinstance(each, ast.If) for inner in each.body),
    ):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {one.asname or one.name: (node.module, one.name) for one in node.names}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {one.id: node.value for one in node.targets if isinstance(one, ast.Name)}
            found |= _unpacked(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def _unpacked(node: ast.Assign) -> dict[str, ast.expr]:
    """``A, B = 1, 2``."""
    target, value = node.targets[0], node.value
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
        return {}
    both = zip(target.elts, value.elts, strict=False)
    return {one.id: each for one, each in both if isinstance(one, ast.Name)}


def _named(module: str, name: str) -> Any:
    return _names(module).get(name)


def _path(module: str) -> Path | None:
    if module.partition(".")[0] != "masquerade":
        return None
    bare = _ROOT.joinpath(*module.split(".")[1:])
    found = (bare.with_suffix(".py"), bare / "__init__.py")
    return next((path for path in found if path.is_file()), None)


def _arguments(of: SourceClass) -> dict[str, str]:
    """What the section ``Args`` says of each name."""
    found: dict[str, list[str]] = {}
    last = ""
    for line in of.section("Args"):
        begun = re.match(r"(\w+): (.*)", line)
        if begun is not None:
            last = begun[1]
            found[last] = [begun[2]]
        elif line.strip() and last:
            found[last].append(line.strip())
    return {name: " ".join(lines).replace("``", "") for name, lines in found.items()}


def _described(flag: Flag, about: dict[str, str]) -> Flag:
    """A subclass may say more of an inherited field."""
    said = about.get(flag.name, flag.about)
    return flag if said == flag.about else Flag(**{**vars(flag), "about": said})


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_inner(node: ast.AnnAssign) -> bool:
    """A field that nobody gives."""
    is_field = isinstance(node.value, ast.Call) and _is_named(node.value.func, "field")
    return is_field and "init=False" in ast.unparse(node.value)  # type: ignore[arg-type]


def _takes(node: ast.expr, module: str) -> str:
    """What is given with a flag of this type."""
    if isinstance(node, ast.BinOp):  # X | None
        sides = [_takes(side, module) for side in (node.left, node.right)]
        return "|".join(side for side in sides if side)
    if isinstance(node, ast.Constant):
        return "" if node.value is None else str(node.value)
    if isinstance(node, ast.Subscript):
        return _takes_of(ast.unparse(node.value), node.slice, module)
    name = ast.unparse(node)
    if name in _WORDS or name == "bool":
        return _WORDS.get(name, "")
    meant = _named(module, name)
    if isinstance(meant, tuple):
        return _takes(ast.Name(meant[1]), meant[0])
    if isinstance(meant, ast.ClassDef):
        return "|".join(_members(meant)) or "VALUE"
    return _takes(meant, module) if isinstance(meant, ast.expr) else "VALUE"


def _takes_of(kind: str, inner: ast.expr, module: str) -> str:
    if kind == "Literal":
        values = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return "|".join(str(ast.literal_eval(value)) for value in values)
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    first = _takes(items[0], module)
    if kind == "UseAppendAction":  # one each time
        return first.removesuffix(" ...")
    if kind not in ("tuple", "list", "Sequence"):
        return first
    is_open = kind != "tuple" or any(isinstance(each, ast.Constant) for each in items)
    return f"{first} ..." if is_open else " ".join(_takes(each, module) for each in items)


def _members(node: ast.ClassDef) -> list[str]:
    """The values of an enumeration."""
    found = []
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            value = each.value
            is_text = isinstance(value, ast.Constant)
            found.append(str(value.value) if is_text else each.targets[0].id.lower())  # type: ignore[attr-defined]
    return found


def _shown(node: ast.expr, module: str) -> str:
    """A default as one would type it."""
    value = _value(node, module)
    if value is None or value is False or value == ():
        return ""
    if isinstance(value, tuple):
        return " ".join(str(each) for each in value)
    return str(value)


def _value(node: Any, module: str) -> Any:
    """What an expression is, as far as it is plain; None where it is not."""
    if isinstance(node, tuple):
        return _value(_named(*node), node[0])
    if isinstance(node, ast.Name) and _named(module, node.id) is not None:
        return _value(_named(module, node.id), module)
    if isinstance(node, ast.Call):
        return _called(node, module)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = class_of(module, node.value.id)
        taken = _named(module, node.value.id)
        if owner is None and isinstance(taken, tuple):  # a module
            return _value((".".join(taken), node.attr), module)
        return node.attr if owner is None else _attribute(owner, node.attr)
    if isinstance(node, ast.Tuple):
        return tuple(_value(each, module) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return _computed(node, module)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None  # computed: nothing that one would type


def _computed(node: ast.BinOp, module: str) -> Any:
    """Whole numbers such as ``1 << 26``."""
    left, right = _value(node.left, module), _value(node.right, module)
    ways: dict[type, Callable[[int, int], int]] = {
        **{ast.LShift: operator.lshift, ast.Mult: operator.mul},
        **{ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv},
    }
    way = ways.get(type(node.op))
    is_whole = isinstance(left, int) and isinstance(right, int)
    return way(left, right) if way is not None and is_whole else None


def _called(node: ast.Call, module: str) -> Any:
    """``Path("x")``, ``float("inf")``, or the default of a ``field``."""
    name = ast.unparse(node.func)
    if name in ("Path", "float") and node.args:
        return _value(node.args[0], module)
    given = {word.arg: word.value for word in node.keywords}
    if name == "field" and "default" in given:
        return _value(given["default"], module)
    return None


def _attribute(owner: SourceClass, name: str) -> Any:
    """A field's default, or an enumeration's member."""
    for node in owner.node.body:
        if isinstance(node, ast.AnnAssign) and _is_named(node.target, name) and node.value:
            return _value(node.value, owner.module)
        if isinstance(node, ast.Assign) and _is_named(node.targets[0], name):
            value = _value(node.value, owner.module)
            return name.lower() if isinstance(value, str) and value.startswith("auto") else value
    return name
