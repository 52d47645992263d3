"""A store of one node, and what fencepost needs to test it."""

SYSTEMS = {"pocket": "pocket_store.system:POCKET"}
