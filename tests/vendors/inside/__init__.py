"""Tests that share a process with LangGraph: `test_inside.py` runs them in its environment."""
