"""What becomes of a write: rules, proposals that wait for a person, reviews and decisions."""
