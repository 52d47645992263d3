"""For authors of tests and plug-ins: plans as pytest tests, generators played without threads or clocks."""
