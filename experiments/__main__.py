"""Run one: ``python -m experiments mask_dp --setting paper --out out/mask_dp``."""

import sys

from experiments.engine import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
