"""The interfaces of other frameworks over a memory. A module that needs a framework's package imports it itself."""
