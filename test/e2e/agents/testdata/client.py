"""client.py CLIENT URL: reads a URL with a client of Python, of which none is configured, and prints the answer."""
import sys

client, url = sys.argv[1:]
if client == "urllib":
    import urllib.request
    print(urllib.request.urlopen(url).read().decode())
elif client == "aiohttp":
    import asyncio
    import aiohttp

    async def read():
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            print(await answer.text())

    asyncio.run(read())
else:
    print(__import__(client).get(url).text)
