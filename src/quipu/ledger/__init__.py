"""The system of record: one implementation over two drivers."""
