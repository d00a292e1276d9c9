"""The papers' experiments: tables of arms, columns and seeds, and what follows from them."""
