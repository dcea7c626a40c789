"""The truth: implementations of the ledger port."""
