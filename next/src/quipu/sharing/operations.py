"""The operations of sharing, each declared once. OAP's addresses call the same ones."""

from quipu.schemas import Operations

OPERATIONS: Operations = ()
