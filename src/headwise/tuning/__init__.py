"""Tuning: from a plan or from objects in hand to a tuned model."""
