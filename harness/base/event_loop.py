"""The event loop of a run: uvloop where it is installed, else asyncio's own. One place, so that all agree."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop, for `asyncio.Runner(loop_factory=new_event_loop)`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
