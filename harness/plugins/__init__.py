"""The registry: every name that a person can type, and where its code stands. Imports plug-ins by name only."""
