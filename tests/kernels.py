"""Other kernels for the tests: libraries add and multiply in an order that the processor decides.

    python tests/kernels.py oldest [words for pytest]

runs the tests on some of them. Whatever is no sum of floats is the same on all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
BY_PLACE = "MASQUERADE_TESTS_ROUND_BY_PLACE"  # see `round_by_place`
INSIDE = "MASQUERADE_TESTS_ON_OTHER_KERNELS"

_FAST = set(np.show_config("dicts")["SIMD Extensions"].get("found", []))
_WIDE = {name for name in _FAST if "512" in name or name == "X86_V4"}
HAS_AVX2 = bool(_FAST & {"AVX2", "X86_V3"})

# What every processor can do; a variable that a library does not know does nothing.
_PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENCV_IPP": "disabled",
    "OPENCV_CPU_DISABLE": "AVX2,AVX512_SKX",
    "NPY_DISABLE_CPU_FEATURES": " ".join(sorted(_FAST)),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_AVX2 = {
    "MKL_CBWR": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": " ".join(sorted(_WIDE)),
}

SETTINGS = {
    "by_place": _PLAIN | {BY_PLACE: "1"},
    "oldest": _PLAIN | {"MKL_CBWR": "COMPATIBLE"},
}
if _WIDE:  # elsewhere these are the processor's own, or more than it can do
    SETTINGS["avx2"] = _AVX2

_PROBE = """
import hashlib, json, math
import numpy as np

rng = np.random.default_rng(1)  # its uniform numbers are the same everywhere
a, b = rng.random((2, 61, 61)) - 0.5
found = {
    "numpy products": a @ b,
    "numpy functions": [np.exp(a), np.tanh(a), np.exp(a.astype("f4"))],
    "libm": [math.sin(x) for x in a.flat],
}
try:
    import torch
except ImportError:
    pass
else:
    x, y = (torch.from_numpy(each).float() for each in (a, b))
    images = torch.from_numpy(rng.random((2, 3, 20, 20))).float()
    kernels = torch.from_numpy(rng.random((4, 3, 3, 3))).float()
    found["torch products"] = x @ y
    found["torch convolutions"] = torch.nn.functional.conv2d(images, kernels)
    found["torch functions"] = torch.stack([x.softmax(dim=1), x.exp()])
    found["torch sums"] = torch.from_numpy(rng.random(100_000)).float().sum()
print(json.dumps({
    name: hashlib.sha256(np.asarray(each).tobytes()).hexdigest() for name, each in found.items()
}))
"""


def environment(kind: str) -> dict[str, str]:
    """This process's, with the kernels of that kind and without what pytest put there."""
    own = {name: held for name, held in os.environ.items() if not name.startswith("PYTEST_")}
    return own | SETTINGS[kind] | {INSIDE: kind}


def differing(kind: str) -> list[str]:
    """What that kind rounds otherwise than this processor does by itself."""
    found = []
    for variables in (dict(os.environ), environment(kind)):
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=variables,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        found.append(json.loads(done.stdout))
    return [name for name in found[0] if found[0][name] != found[1][name]]


def round_by_place() -> None:
    """Let products of float32 matrices round by where a number lies, in the last bit or two.

    Some processors' kernels do: a row is computed otherwise at the edge of a block than inside,
    so a record's numbers hang on its place in a batch and on the size of the batch, but never on
    other records. With this all processors do.
    """
    import torch

    steps = torch.tensor([1 - 2.0**-23, 1.0, 1 + 2.0**-22])

    def rounded(out: torch.Tensor) -> torch.Tensor:
        if out.dtype != torch.float32:
            return out
        place = torch.arange(out.numel()).reshape(out.shape)
        return out.mul_(steps[(place * 2654435761 >> 7) % 3])

    def mm(a, b):  # type: ignore[no-untyped-def]
        out = a.new_empty(a.shape[0], b.shape[1])
        return rounded(torch.ops.aten.mm.out(a, b, out=out))

    def addmm(c, a, b, *, beta=1, alpha=1):  # type: ignore[no-untyped-def]
        out = a.new_empty(a.shape[0], b.shape[1])
        return rounded(torch.ops.aten.addmm.out(c, a, b, beta=beta, alpha=alpha, out=out))

    def bmm(a, b):  # type: ignore[no-untyped-def]
        out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
        return rounded(torch.ops.aten.bmm.out(a, b, out=out))

    def baddbmm(c, a, b, *, beta=1, alpha=1):  # type: ignore[no-untyped-def]
        out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
        return rounded(torch.ops.aten.baddbmm.out(c, a, b, beta=beta, alpha=alpha, out=out))

    global _library  # as long as it lives, these are the kernels
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of replaced kernels
        for kernel in (mm, addmm, bmm, baddbmm):
            _library.impl(kernel.__name__, kernel, "CPU")


def main(kind: str, *words: str) -> int:
    """Run pytest on these kernels."""
    if kind not in SETTINGS:
        print(f"kernels {kind}: not on this processor")
        return 0
    print(f"kernels {kind}: other {', '.join(differing(kind)) or 'than usual in nothing'}")
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, env=environment(kind)).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
