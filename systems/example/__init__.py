"""A small replicated store of ours, with defects to switch on: what the tutorial, canaries and plants run on."""

from typing import Final

SYSTEMS: Final = {"example": "fencepost.systems.example.system:EXAMPLE"}
