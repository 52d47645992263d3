"""Members removed and added."""
