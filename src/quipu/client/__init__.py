"""The same memory over HTTP: what a `Memory` asks is asked of a server.

Rules of this folder:

1. A call is repeated only where that is harmless: a read, a write with an idempotency key, or one that never arrived.
2. Nothing here decides: the server does. What it answers becomes the model's values, what it refuses the same errors.
3. The token is in one header and nowhere else: in no message, no log, no representation.
"""
