"""Letta's own client: the archives' passages, listed and searched."""

import json
import sys

from letta_client import Letta

at = json.loads(sys.argv[1])
client = Letta(base_url=at["server"], api_key="none")
texts, found = [], []
for archive in client.archives.list(limit=1000):
    if not archive.name.startswith("quipu--default--") or "--ana--" not in archive.name:
        continue
    texts += [one.passage.text for one in client.passages.search(archive_id=archive.id, limit=100)]
    found += [
        one.passage.text for one in client.passages.search(query=at["query"], archive_id=archive.id, limit=5)
    ]
print(json.dumps({"texts": texts, "found": found}))
