"""Fakes and scenarios for testing what is built on Quipu, and Quipu itself."""
