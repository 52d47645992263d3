"""For authors of plug-ins: generators played without threads or clocks."""
