"""Everything that proves Quipu right. A test's name is a sentence."""
