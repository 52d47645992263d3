"""The conformance suite of systems: whether a system's servers, client and declarations keep the contract."""
