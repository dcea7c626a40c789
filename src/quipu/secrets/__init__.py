"""Secrets: registered values and things that look like keys are kept out of every text that is stored."""
