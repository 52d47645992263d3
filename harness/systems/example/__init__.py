"""A small replicated store of ours, with defects to switch on: what the tutorial, canaries and plants run on."""
