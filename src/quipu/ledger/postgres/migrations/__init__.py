"""The steps from an empty database to the current schema."""
