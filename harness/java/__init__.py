"""What systems on the JVM share: start-up archives, constants of classes."""
