"""What a person or a gate reads: HTML, `verdict.json`, `junit.xml`."""
