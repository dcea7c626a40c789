"""The web page: shows what the rooms declare in their `page.py`, and decides nothing."""
