"""Copies of the ledger's records in other products, kept in the background and asked during a recall."""
