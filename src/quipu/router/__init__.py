"""Peers asked as one: several memories of any make behind one router."""
