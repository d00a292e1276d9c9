"""Open an account, spend it, and see it refuse. You will see what is left; it takes a second."""

import tempfile
from pathlib import Path

import numpy as np

import masquerade as mq

CAP, EACH, DELTA = 4.0, 2.0, 1e-5

heart = np.round(70 + 20 * np.sin(np.arange(1440) / 200))  # one number a minute

with tempfile.TemporaryDirectory() as folder:
    ledger = mq.Ledger(Path(folder) / "budget.db")
    ledger.open_account("ward", mq.Unit(name="frame"), epsilon=CAP, delta=DELTA)
    ledger.add_content("ward", heart)
    mechanism = mq.make_mechanism(
        "gaussian_noise", epsilon=EACH, delta=DELTA, unit="frame", low=30, high=220
    )
    for number in range(1, 10):
        try:
            released = mq.release_value(heart, mechanism, ledger=ledger)
        except mq.BudgetExceeded as refusal:
            print(refusal)
            break
        print(f"Release {number} is entry {released.receipt.ledger_sequence} of the ledger.")
