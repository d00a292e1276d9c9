"""Scores to evidence: a statistical lower bound on epsilon. It can refute; it can never prove."""
