"""Quipu in other people's frameworks: their interfaces, over a `quipu.sync.Memory`. Each imports its framework itself."""
