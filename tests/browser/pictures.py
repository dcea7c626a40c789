"""Takes the pictures of the page that the documentation shows: python -m tests.browser.pictures"""

import asyncio
from pathlib import Path

from quipu.embed.local import LocalEmbedder
from tests.browser.window import chromium, opened, served
from tests.web.conftest import open_house
from tests.web.past import write_past

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


async def take() -> None:
    house = await open_house(embedder=LocalEmbedder())
    past = await write_past(house.container, house.clock)
    places = {
        "page": "/",
        "recall": "/memories?q=what+may+Mara+eat%3F&agent=support-bot",
        "review": f"/review/{past.waiting[1]}",
        "journal": "/journal",
    }
    async with served(house.app) as url, chromium() as browser:
        window = await opened(browser, url, viewport={"width": 1280, "height": 860})
        await window.sign_in(past.tokens["ruth"])
        for name, place in places.items():
            await window.go(place)
            await window.page.screenshot(path=PICTURES / f"{name}.png")
            print(f"pictures: docs/pictures/{name}.png")
    await house.close()


if __name__ == "__main__":
    asyncio.run(take())
