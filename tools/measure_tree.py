"""Measure how the tree reads: files, import lines, names of functions, import cycles.

    python tools/measure_tree.py [SRC] [--list one-word|participles]

SRC is the folder above the package (``src``). Counted are all ``.py`` files under it, in physical
lines. Import lines are those of import statements anywhere in a file. A function is every ``def``:
methods, properties and nested ones too. Its words are what underscores part, leading ones left out:
``_check`` is one word. Shares are of all functions; a dunder method is never one word or a
participle. A participle is a first word that ends in -ed ("-ed only") or is one of ``IRREGULAR``
as well, ``NO_PARTICIPLES`` left out. Cycles are the strongly connected parts of the graph of
imports, without and with those under ``if TYPE_CHECKING`` (lazy modules are imported there):
between modules, and between the packages and modules right under the root.
"""

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

IRREGULAR = set(
    "begun bought bound broken brought built caught chosen done drawn driven fed felt forgotten"
    " fought found frozen given gone grown heard held hidden hung kept known laid learnt led left"
    " lent lost made meant met paid said seen sent shot shown shrunk shut sold sought spent spoken"
    " split stolen stood struck stuck sung sunk swept taken taught thought thrown told torn"
    " understood unseen won worn woven written".split()
)
NO_PARTICIPLES = {
    "bed",
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "red",
    "seed",
    "speed",
    "split",
}


def read_modules(src: Path) -> dict[str, tuple[Path, ast.Module, int]]:
    """Parse every file; keys are dotted module names."""
    modules = {}
    for path in sorted(src.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")
        modules[name] = (path, ast.parse(text), text.count("\n"))
    return modules


def is_dunder(name: str) -> bool:
    """Tell whether Python gave this name its meaning."""
    return name.startswith("__") and name.endswith("__")


def is_one_word(name: str) -> bool:
    """Tell whether a function's name is a single word."""
    return not is_dunder(name) and "_" not in name.strip("_")


def is_participle(name: str) -> bool:
    """Tell whether a function's name begins with a participle."""
    word = name.strip("_").split("_")[0]
    return (
        not is_dunder(name)
        and word not in NO_PARTICIPLES
        and (word.endswith("ed") or word in IRREGULAR)
    )


def list_imports(module: str, path: Path, tree: ast.Module, with_types: bool) -> Iterator[str]:
    """Give what a module imports, as dotted names; the last word may be a function's."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if (
            not with_types
            and isinstance(node, ast.If)
            and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            if node.level:
                base = base[: len(base) - node.level + (path.name == "__init__.py")]
            home = ".".join(
                [*(base if node.level else []), *([node.module] if node.module else [])]
            )
            yield from (f"{home}.{alias.name}" for alias in node.names)
        else:
            pending.extend(ast.iter_child_nodes(node))


def find_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Find the strongly connected parts of more than one node (Tarjan, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles = []
    for root in graph:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        work = [(root, iter(sorted(graph[root])))]
        while work:
            node, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(part) > 1:
                        cycles.append(sorted(part))
            elif target not in order:
                order[target] = low[target] = len(order)
                stack.append(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in stack:
                low[node] = min(low[node], order[target])
    return cycles


def build_graph(
    modules: dict[str, tuple[Path, ast.Module, int]], with_types: bool
) -> dict[str, set[str]]:
    """Which module imports which of the same tree."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, (path, tree, _) in modules.items():
        for wanted in list_imports(name, path, tree, with_types):
            found = wanted if wanted in modules else wanted.rpartition(".")[0]
            if found in modules and found != name:
                graph[name].add(found)
    return graph


def merge_packages(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Merge modules into what stands right under the root package."""
    merged: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        if "." in name:  # the root itself is no package among its own
            here = ".".join(name.split(".")[:2])
            merged[here] |= {".".join(to.split(".")[:2]) for to in targets if "." in to} - {here}
    for target in [to for targets in merged.values() for to in targets]:
        merged.setdefault(target, set())
    return merged


def main() -> None:
    """Print the figures, or the names behind one of them."""
    parser = argparse.ArgumentParser(description="Measure how a tree reads.")
    parser.add_argument("src", nargs="?", type=Path, default=Path(__file__).parent.parent / "src")
    parser.add_argument("--list", choices=("one-word", "participles"))
    options = parser.parse_args()
    modules = read_modules(options.src)
    functions = [
        (name, path, node)
        for name, (path, tree, _) in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if options.list:
        is_bad = {"one-word": is_one_word, "participles": is_participle}[options.list]
        rooms = defaultdict(list)
        for name, path, node in functions:
            if is_bad(node.name):
                rooms[".".join(name.split(".")[:2])].append(f"  {path}:{node.lineno} {node.name}")
        for room, lines in sorted(rooms.items()):
            print(f"{room}: {len(lines)}", *lines, sep="\n")
        return
    total = sum(count for _, _, count in modules.values())
    imports = sum(
        node.end_lineno - node.lineno + 1
        for _, tree, _ in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno
    )
    names = [node.name for _, _, node in functions]
    one_word = sum(map(is_one_word, names)) / len(names)
    participles = sum(map(is_participle, names)) / len(names)
    ends_in_ed = sum(name.strip("_").split("_")[0].endswith("ed") for name in names) / len(names)
    print(f"files {len(modules)}, lines {total}, lines a file {total / len(modules):.0f}")
    print(f"import lines {imports / total:.1%}")
    print(f"functions {len(names)}")
    print(f"one-word names {one_word:.1%}")
    print(f"participles {participles:.1%} (-ed only {ends_in_ed:.1%})")
    for label, with_types in (("when it runs", False), ("with those for types", True)):
        graph = build_graph(modules, with_types)
        cycles, package_cycles = find_cycles(graph), find_cycles(merge_packages(graph))
        print(f"import cycles {label}: modules {len(cycles)}, packages {len(package_cycles)}")
        for cycle in [*cycles, *package_cycles]:
            print("  " + ", ".join(cycle))


if __name__ == "__main__":
    main()
