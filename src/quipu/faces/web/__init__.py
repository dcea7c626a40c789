"""The page for people: what is remembered, why it was found, what it was before, and the proof that nothing was altered."""
