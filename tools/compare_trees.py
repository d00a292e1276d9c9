"""Decide whether two checkouts behave alike, through the command line alone.

    python tools/compare_trees.py record TREE OUT.json [--only TEXT ...] [--update] [--fast]
    python tools/compare_trees.py compare BEFORE.json AFTER.json
    python tools/compare_trees.py tests TREE_A TREE_B [--map FILE]

A recording holds, for each case of `compare_cases`, exit code, answer, standard error and what the
files hold that it wrote. Dates, versions, keys, temporary paths and durations are left out. A group
of cases runs in one process and one fresh folder, with a configuration and a cache of its own;
downloads are shared between recordings. Entropy of the operating system is replaced by a fixed
stream, so that audits repeat themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import html
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import compare_cases as cases

SHARED = Path(tempfile.gettempdir()) / "compare-trees"  # downloads and compiled code
BEFORE = Path(__file__).parents[1] / "tests" / "fixtures" / "before"  # the same for both
GROUP_SECONDS = 900
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
EXACT = 1e-12  # relative: the same numbers, whatever order they were added in
LEARNED = 1e-6  # for what a network computed

# What differs from run to run, or says when, where and by which version something was made.
MASKED_KEYS = frozenset(
    "created date time code_version output_sha256 reservation token head signed_by signature "
    "seconds".split()
)
MASKED_TEXT = (
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d:\d\d)?)?", "<DATE>"),
    (r"(?<!\w)(?<!\d\.)[0-9a-f]{64}\b", "<HEX64>"),
    (r"(?<!\w)(?<!\d\.)[0-9a-f]{32}\b", "<HEX32>"),
    (r"(?<!\w)(?<!\d\.)[0-9a-f]{16}\b", "<HEX16>"),
    (r"(?<!\w)(?<!\d\.)[0-9a-f]{12}\b", "<HEX12>"),
    (r"\b(about |in |takes )?[\d.,]+ (s|seconds?|min|minutes?|ms|hours?)\b(?! of)", "<SECONDS>"),
    (r"(?<=-)[0-9a-f]{8}(?=\.names)", "<HEX8>"),
    (r"(?<=asquerade )\d+\.\d+\.\d+(\.dev\d+)?", "<VERSION>"),
    (r'(?<="code_version": )"[^"]+"', "<VERSION>"),
)


# --- recording -----------------------------------------------------------------------------------


def record_tree(tree: Path, python: str, groups: list[cases.Group], jobs: int) -> dict[str, Any]:
    """Run the groups against a checkout; what they need is made by the first."""
    SHARED.mkdir(exist_ok=True)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        home = Path(name)
        share_downloads(SHARED / "assets", home / "cache" / "assets")
        waiting, is_ready = list(groups), False
        if any(group.start == "inputs" for group in groups):
            waiting.insert(0, cases.INPUTS)
        with ThreadPoolExecutor(jobs) as pool:
            running: dict[Any, cases.Group] = {}
            while waiting or running:
                for group in list(waiting):
                    if len(running) < jobs and (is_ready or group.start != "inputs"):
                        waiting.remove(group)
                        running[pool.submit(run_group, tree, python, home, group)] = group
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    group = running.pop(future)
                    answers = future.result()
                    is_ready = is_ready or group is cases.INPUTS
                    found |= {f"{group.name}: {case}": answer for case, answer in answers.items()}
                    seconds = sum(answer.get("seconds", 0) for answer in answers.values())
                    say(f"{group.name}: {len(answers)} cases, {seconds:.1f} s")
        share_downloads(home / "cache" / "assets", SHARED / "assets")
    return dict(sorted(found.items()))


def share_downloads(source: Path, target: Path) -> None:
    """Link downloaded files, which are pinned by their hash; nothing computed is shared."""
    for path in source.rglob("*") if source.is_dir() else ():
        new = target / path.relative_to(source)
        if path.is_file() and not path.is_symlink() and not new.exists():
            new.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, new)
            except OSError:
                shutil.copy2(path, new)


def run_group(tree: Path, python: str, home: Path, group: cases.Group) -> dict[str, Any]:
    """Run one group in a process of its own and give an answer for each case."""
    folder = home / "work" / group.name.replace(" ", "_")
    if group.start == "inputs":
        shutil.copytree(home / "work" / "inputs", folder)
    elif group.start == "before":
        shutil.copytree(BEFORE, folder)
    else:
        folder.mkdir(parents=True)
    if group is cases.INPUTS:
        cases.make_odd_files(folder)
    config = home / "config" / group.name.replace(" ", "_")
    job: dict[str, Any] = {
        "steps": group.steps,
        "is_live": group.is_live,
        "is_fresh": group.is_fresh,
        "paths": {str(folder): "<HERE>", str(home / "cache"): "<CACHE>", str(config): "<CONFIG>",
                  str(tree): "<TREE>", str(home): "<HOME>", python: "<PYTHON>"},
        "answers": str(folder.with_suffix(".answers")),
    }  # fmt: skip
    job_file = folder.with_suffix(".job")
    job_file.write_text(json.dumps(job))
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    environment = kept | THREADS | {
        "HOME": str(home / "home"), "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0",
        "XDG_CONFIG_HOME": str(config), "XDG_CACHE_HOME": str(home / "cache"), "COLUMNS": "100",
        "MASQUERADE_CACHE": str(home / "cache"), "TMPDIR": str(home),
        "PYTHONPYCACHEPREFIX": str(SHARED / "bytecode"),
    }  # fmt: skip
    words = [python, __file__, "play", str(job_file)]
    end = ""
    try:
        subprocess.run(words, cwd=folder, env=environment, timeout=GROUP_SECONDS, check=False,
                       stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        end = "too slow"
    lines = Path(job["answers"]).read_text().splitlines() if Path(job["answers"]).exists() else []
    answers = dict(json.loads(line) for line in lines)
    if len(answers) < sum(not step.startswith("!") for step in group.steps):
        answers["(the rest)"] = {"code": None, "stopped": end or "the process died"}
    return answers


# --- in the recorded process ---------------------------------------------------------------------


def play_job(job_file: Path) -> None:
    """Run the steps of a group here, one after the other, and write an answer for each."""
    job = json.loads(job_file.read_text())
    seen: Counter[str] = Counter()
    with Path(job["answers"]).open("w") as answers:
        for step in job["steps"]:
            words = shlex.split(step)
            if step.startswith("!"):
                change_files(words)
                continue
            seen[step] += 1
            case = step if seen[step] == 1 else f"{step} (again {seen[step] - 1})"
            before = list_files()
            begun = time.perf_counter()
            code, out, err = (run_fresh if job["is_fresh"] else run_here)(words)
            seconds = time.perf_counter() - begun
            mask = Mask(job["paths"])
            answer: dict[str, Any] = {"code": code, "err": mask.text(err)}
            try:
                answer["json"] = mask.value(json.loads(out)) if out.strip() else None
            except json.JSONDecodeError:
                answer["out"] = mask.text(out)
            after = list_files()
            answer["gone"] = sorted(mask.text(name) for name in set(before) - set(after))
            new = [name for name in after if after[name] != before.get(name)]
            new = [name for name in new if not (name in before and ".db" in name)]
            answer["files"] = read_files(new, mask, job["is_live"])
            answer["seconds"] = round(seconds, 2)
            answers.write(json.dumps([case, answer]) + "\n")
            answers.flush()


def run_fresh(words: list[str]) -> tuple[int, str, str]:
    """A whole command, as from a shell."""
    done = subprocess.run([sys.executable, "-m", "masquerade", *words], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def run_here(words: list[str]) -> tuple[int | str, str, str]:
    """A command in this process, its streams caught below Python."""
    from masquerade.cli import main

    os.urandom = FixedEntropy()
    sys.argv = ["masquerade", *words]
    code: int | str = "no exit"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with redirected(1, out), redirected(2, err):
            try:
                main(words)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 0 if not stop.code else 1
            except BaseException as error:
                traceback.print_exc()
                code = f"{type(error).__name__}: {error}"
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="backslashreplace"))
    if isinstance(code, str):
        texts[1] = texts[1].splitlines()[-1]  # a traceback names the lines of one tree
    return code, texts[0], texts[1]


@contextlib.contextmanager
def redirected(number: int, target: Any) -> Iterator[None]:
    stream = (sys.stdout, sys.stderr)[number - 1]
    stream.flush()
    kept = os.dup(number)
    os.dup2(target.fileno(), number)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(kept, number)
        os.close(kept)


class FixedEntropy:
    """In place of `os.urandom`: the n-th call for so many bytes gives the same ones each time."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()

    def __call__(self, size: int) -> bytes:
        self.calls[size] += 1
        return hashlib.shake_256(f"{size} {self.calls[size]}".encode()).digest(size)


def change_files(words: list[str]) -> None:
    """The steps that are no command: !rm, !cp, !mkdir, !append."""
    verb, first, *rest = words
    match verb:
        case "!rm":
            for path in Path().glob(first):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        case "!cp":
            Path(rest[0]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(first, rest[0])
        case "!mkdir":
            Path(first).mkdir()
        case "!append":
            with Path(first).open("ab") as file:
                file.write(b"more")
        case _:
            raise ValueError(verb)


def list_files() -> dict[str, tuple[int, int, int]]:
    """Every file below, and what tells whether it was written again."""
    found = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            held = path.stat()
            found[str(path)] = (held.st_ino, held.st_size, held.st_mtime_ns)
    return found


class Mask:
    """Leaves out what no two runs share."""

    def __init__(self, paths: dict[str, str]) -> None:
        self.paths = paths

    def text(self, text: str) -> str:
        for path, name in self.paths.items():
            text = text.replace(path, name)
        for pattern, name in MASKED_TEXT:
            text = re.sub(pattern, name, text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        if key == "seconds" or (key in MASKED_KEYS and isinstance(value, str)):
            return f"<{key}>"
        if isinstance(value, dict):
            return {self.text(name): self.value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        return self.text(value) if isinstance(value, str) else value


# --- what a file holds ---------------------------------------------------------------------------


def read_files(names: Iterable[str], mask: Mask, is_live: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        try:
            held = read_file(Path(name), mask, is_live)
        except Exception as error:  # a broken file is a finding, the same in both
            held = {"unreadable": type(error).__name__}
        shown = mask.text(name)
        found[shown if shown not in found else f"{shown} (another)"] = held
    return found


def read_file(path: Path, mask: Mask, is_live: bool) -> Any:
    """What counts of a file: decoded, with what differs from run to run left out."""
    match path.suffix.lower():
        case ".json":
            return mask.value(json.loads(path.read_text()))
        case ".npy" | ".npz":
            return read_arrays(path, is_live)
        case ".csv":
            return path.read_text().splitlines()[: 1 if is_live else None]
        case ".mp4" | ".mkv" | ".mov" | ".webm" | ".avi" | ".png" | ".jpg" | ".gif":
            return read_film(path, is_live)
        case ".safetensors":
            return read_tensors(path, mask, is_live)
        case ".html" | ".svg" | ".md" | ".txt":
            return "shown" if is_live and path.suffix == ".svg" else visible_text(path, mask)
    return "present"


def digest(array: Any, is_live: bool) -> dict[str, Any]:
    """Shape, hash and a summary that shows any difference in size."""
    import numpy as np

    about: dict[str, Any] = {"shape": list(array.shape), "type": str(array.dtype)}
    if is_live or array.dtype == object:
        return about
    about["sha256"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    if array.dtype.kind == "f" and array.size:
        flat = array.astype(np.float64).ravel()
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(4, flat.size))
        mixed = signs @ flat / math.sqrt(flat.size)
        about["summary"] = [flat.mean(), np.abs(flat).mean(), flat.min(), flat.max(), *mixed]
        about["summary"] = [float(number) for number in about["summary"]]
    return about


def read_arrays(path: Path, is_live: bool) -> Any:
    import numpy as np

    held = np.load(path, allow_pickle=False)
    if isinstance(held, np.ndarray):
        return digest(held, is_live)
    return {name: digest(held[name], is_live) for name in held.files}


def read_film(path: Path, is_live: bool) -> Any:
    import av
    import numpy as np

    with av.open(str(path)) as container:
        streams = [f"{each.type} {each.codec_context.name}" for each in container.streams]
        video = container.streams.video[0]
        about = {"streams": streams, "rate": str(video.average_rate), "pixels": video.pix_fmt}
        about["metadata"] = sorted(set(container.metadata) - {"encoder"})
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video)]
    return about | {"frames": digest(np.array(frames), is_live)}


def read_tensors(path: Path, mask: Mask, is_live: bool) -> Any:
    from safetensors import safe_open

    found: dict[str, Any] = {}
    with safe_open(str(path), "np") as file:
        for name, text in (file.metadata() or {}).items():
            try:
                found[f"metadata {name}"] = mask.value(json.loads(text), name)
            except json.JSONDecodeError:
                found[f"metadata {name}"] = mask.value(text, name)
        for name in file.keys():
            found[name] = digest(file.get_tensor(name), is_live)
    return found


def visible_text(path: Path, mask: Mask) -> list[str]:
    """The words of a page, line by line, without its pictures and styles."""
    text = path.read_text()
    if path.suffix in (".html", ".svg"):
        text = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", text)
        text = html.unescape(re.sub(r"<[^>]*>", "\n", text))
    return [mask.text(line.strip()) for line in text.splitlines() if line.strip()]


# --- comparing -----------------------------------------------------------------------------------


def compare_records(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print every difference; 1 if one of them is not allowed."""
    differences, allowed = 0, Counter[str]()
    for case in sorted({*before, *after}):
        one, other = before.get(case), after.get(case)
        if one is None or other is None:
            found = [("", "recorded" if one else "absent", "recorded" if other else "absent")]
        else:
            found = list(find_differences(one, other, LEARNED if cases.is_learned(case) else EXACT))
        for path, old, new in found:
            reason = next((why for what, where, why in cases.ALLOWED
                           if re.search(what, case) and re.search(where, path)), None)  # fmt: skip
            if reason is not None:
                allowed[reason] += 1
                continue
            differences += 1
            print(f"{case}\n  {path}\n    before: {shorten(old)}\n    after:  {shorten(new)}")
    for reason, count in allowed.items():
        print(f"allowed, {count} times: {reason}")
    print(f"{len({*before} & {*after})} cases in both, {differences} differences")
    return 1 if differences else 0


def find_differences(one: Any, other: Any, near: float, path: str = "") -> Iterator[Any]:
    """Key path, before and after of whatever is not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        if "sha256" in one and one.get("sha256") == other.get("sha256"):
            one, other = dict(one, summary=None), dict(other, summary=None)
        elif near == LEARNED and "summary" in one and "summary" in other:  # near is enough
            one, other = dict(one, sha256=None), dict(other, sha256=None)
        for key in sorted({*one, *other} - ({"seconds"} if not path else set())):
            if key not in one or key not in other:
                yield f"{path}/{key}", one.get(key, "(absent)"), other.get(key, "(absent)")
            else:
                yield from find_differences(one[key], other[key], near, f"{path}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from find_differences(left, right, near, f"{path}/{place}")
    elif is_number(one) and is_number(other):
        if not (one == other or math.isclose(one, other, rel_tol=near, abs_tol=near * 1e-3)
                or (near == LEARNED and abs(one - other) <= LEARNED)):  # fmt: skip
            yield path, one, other
    elif isinstance(one, str) and isinstance(other, str) and "\n" in one + other:
        if one != other:
            left, right = one.splitlines(), other.splitlines()
            gone, new = [x for x in left if x not in right], [x for x in right if x not in left]
            yield path, "\n".join(gone) or one, "\n".join(new) or other
    elif one != other:
        yield path, one, other


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shorten(value: Any, length: int = 600) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= length else f"{text[:length]} ... ({len(text)} characters)"


# --- tests ---------------------------------------------------------------------------------------


def collect_tests(tree: Path, python: str) -> list[str]:
    """Names of all tests without the file they stand in; a doctest without its module."""
    words = [python, "-m", "pytest", "--collect-only", "-q", "-m", "slow or not slow",
             "-p", "no:cacheprovider", "-o", "addopts=--doctest-modules"]  # fmt: skip
    environment = os.environ | {
        "PYTHONPATH": f"{tree / 'src'}:{tree / 'tests'}:{tree}",
        "PYTHONPYCACHEPREFIX": str(SHARED / "bytecode"),
    }
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(
            f"{tree}: the tests cannot be collected.\n{done.stdout[-3000:]}{done.stderr[-500:]}"
        )
    names = []
    for line in done.stdout.splitlines():
        path, mark, name = line.partition("::")
        if mark and path.endswith(".py"):
            module = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
            module = module.removesuffix(".__init__")
            names.append(name.removeprefix(module).lstrip(".") or module)
    return names


def compare_tests(before: list[str], after: list[str], mapping: dict[str, str]) -> int:
    """Print the tests of the one that have no equal in the other; 1 if there are any."""
    missing = Counter(before) - Counter(after)
    added = Counter(after) - Counter(before)
    explained = Counter[str]()
    for name in sorted(missing.elements()):
        old = next((each for each in mapping if each == name or fnmatch.fnmatchcase(
            name, each.replace("[", "[[]"))), None)  # fmt: skip
        new = mapping.get(old or "", "")
        if new and (" " in new or added[new] > 0 or any(
                fnmatch.fnmatchcase(each, new.replace("[", "[[]")) for each in added)):  # fmt: skip
            explained[new if " " in new else "renamed"] += 1
            missing[name] -= 1
    for name, count in sorted((+missing).items()):
        print(name if count == 1 else f"{name} ({count} times)")
    for reason, count in explained.items():
        print(f"explained, {count}: {reason}")
    print(f"{len(before)} before, {len(after)} after, {missing.total()} without an equal, "
          f"{added.total()} that are new")  # fmt: skip
    return 1 if missing.total() else 0


# --- the command line ----------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("tree", type=Path)
    record.add_argument("out", type=Path)
    record.add_argument("--only", nargs="+", default=[""], help="groups whose names have these")
    record.add_argument("--update", action="store_true", help="keep OUT's other groups")
    record.add_argument("--fast", action="store_true", help="without training and slow releases")
    record.add_argument("--jobs", type=int, default=2)
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--only", default="", help="cases with this text")
    tests = commands.add_parser("tests")
    tests.add_argument("before", type=Path)
    tests.add_argument("after", type=Path)
    tests.add_argument("--map", type=Path, help="lines: old name -> new name, or a reason")
    for each in (record, tests):
        each.add_argument("--python", default=sys.executable)
    commands.add_parser("play").add_argument("job", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "play":
        play_job(chosen.job)
        return 0
    if chosen.command == "record":
        groups = [group for group in cases.all_groups() if not (chosen.fast and group.is_slow)]
        groups = [group for group in groups if any(text in group.name for text in chosen.only)]
        begun = time.perf_counter()
        found = record_tree(chosen.tree.resolve(), chosen.python, groups, chosen.jobs)
        if chosen.update:
            new = {case.partition(": ")[0] for case in found}
            kept = json.loads(chosen.out.read_text())
            kept = {case: kept[case] for case in kept if case.partition(": ")[0] not in new}
            found = dict(sorted((kept | found).items()))
        chosen.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        say(f"{len(found)} cases in {time.perf_counter() - begun:.0f} s: {chosen.out}")
        return 0
    if chosen.command == "compare":
        sides = [json.loads(path.read_text()) for path in (chosen.before, chosen.after)]
        one, other = ({k: v for k, v in each.items() if chosen.only in k} for each in sides)
        return compare_records(one, other)
    lines = chosen.map.read_text().splitlines() if chosen.map else []
    mapping = dict(line.split(" -> ", 1) for line in lines if " -> " in line)
    before, after = (
        collect_tests(tree.resolve(), chosen.python) for tree in (chosen.before, chosen.after)
    )
    return compare_tests(before, after, {old.strip(): new.strip() for old, new in mapping.items()})


if __name__ == "__main__":
    sys.exit(main())
