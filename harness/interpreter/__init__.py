"""Carries out the operations that generators offer: one impure loop. Knows neither faults nor systems."""
