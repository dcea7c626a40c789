"""The words that everybody uses."""
