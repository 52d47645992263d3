"""System calls of unmodified servers watched, held back and failed: by strace, the system's own package."""
