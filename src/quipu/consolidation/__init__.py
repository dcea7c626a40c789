"""Short-term memory becomes long-term memory, by ordinary writes."""
