"""Other machines are told of held writes and decisions."""
