"""The commands of the warehouse."""
