"""A client with the older MCP SDK, in its own environment: asks a server everything once and prints what it was told.

`python mcp1_client.py http URL TOKEN` or `python mcp1_client.py stdio QUIPU STORE`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters  # type: ignore[attr-defined]
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]
from mcp.types import ElicitResult

FACT = {"content": "Mara keeps bees", "type": "semantic"}


async def asked(read: Any, write: Any) -> dict[str, Any]:
    heard: list[str] = []
    questions: list[str] = []

    async def told(message: Any) -> None:
        root = getattr(message, "root", None)
        if getattr(root, "method", "") == "notifications/resources/updated":
            heard.append(str(root.params.uri))

    async def person(_context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True, "reason": "fine"})

    async with ClientSession(read, write, message_handler=told, elicitation_callback=person) as session:
        opened: Any = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        await session.subscribe_resource("memory://stores")
        first: Any = await session.call_tool("remember", FACT)
        held = {**FACT, "content": "Mara keeps ants", "approval_required": True}
        second: Any = await session.call_tool("remember", held)
        found: Any = await session.call_tool("recall", {"query": "Mara keeps"})
        wrong: Any = await session.call_tool("recall", {"qury": "x"})
        record: Any = await session.read_resource(f"memory://records/{first.structuredContent['id']}")
        prompt = await session.get_prompt("recall", {"query": "bees"})
        gone: Any = await session.call_tool("forget", {"ids": [second.structuredContent["id"]]})
        for _ in range(400):
            if heard:
                break
            await asyncio.sleep(0.05)
        # This client does not survive a notice that comes while it closes.
        await session.unsubscribe_resource("memory://stores")
        await session.send_ping()
    return {
        "protocol": opened.protocolVersion,
        "subscribe": opened.capabilities.resources.subscribe,
        "tools": tools,
        "questions": ["Mara keeps ants" in question for question in questions],
        "found": len(found.structuredContent["results"]),
        "wrong": [wrong.isError, wrong.content[0].text.partition(":")[0]],
        "record": json.loads(record.contents[0].text)["content"],
        "prompt": len(prompt.messages),
        "gone": len(gone.structuredContent["forgotten_ids"]),
        "heard": heard[0],
    }


async def main() -> None:
    way, first, second = sys.argv[1:]
    if way == "http":
        async with streamablehttp_client(first, headers={"Authorization": f"Bearer {second}"}) as streams:
            told = await asked(*streams[:2])
    else:
        kept = {**os.environ, "QUIPU_STORE": second}
        started = StdioServerParameters(command=first, args=["mcp", "--agent", "a"], env=kept)
        async with stdio_client(started) as streams:
            told = await asked(*streams)
    print(json.dumps(told))


asyncio.run(main())
