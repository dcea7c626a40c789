"""Search in memory, for every ledger: partitions that follow the journal, two legs, one mask for both."""
