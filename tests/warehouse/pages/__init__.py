"""The pages over all nights."""
