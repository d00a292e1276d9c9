"""What is tested holds on other kernels too, not only on those of this processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import kernels

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(kernels.INSIDE in os.environ, reason="these are other kernels")

QUICK = ("train_gpu", "train_gradients", "train_loop", "train_views", "lstm")
QUICK += ("mvit", "mvit_attention", "worn", "ensemble_student", "efficientnet_lite")


@pytest.mark.parametrize("kind", ["by_place", "oldest"])
@pytest.mark.skipif(not kernels.HAS_AVX2, reason="this processor has the oldest kernels alone")
def test_other_kernels_do_round_otherwise(kind: str) -> None:
    found = kernels.differing(kind)
    assert {"numpy functions", "torch functions"} <= set(found), found


def test_products_round_by_place_but_not_by_company_where_that_is_asked_for() -> None:
    code = (
        "import torch, kernels; kernels.round_by_place()\n"
        "a, b = torch.rand(64, 30), torch.rand(30, 64)\n"
        "whole, other = a @ b, a.clone()\n"
        "other[1:] += 1\n"
        "turned = (a.flip(0) @ b).flip(0)\n"
        "print(torch.equal(whole, turned), torch.allclose(whole, turned, rtol=1e-6),\n"
        "      torch.equal(whole[0], (other @ b)[0]), (0 * a @ b).any().item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=kernels.ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["False", "True", "True", "False"], done.stderr


def test_what_hangs_on_sums_passes_on_other_kernels() -> None:
    found = {path.stem: str(path) for path in (kernels.ROOT / "tests").rglob("test_*.py")}
    files = [found[f"test_{name}"] for name in QUICK]
    own = "not killed and not pretraining"  # processes of their own
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files, "-k", own],
        cwd=kernels.ROOT,
        env=kernels.environment("by_place"),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
