"""What is decided: pure functions, the clock passed in."""
