"""The same work on SQLite, PostgreSQL and other people's stores."""
