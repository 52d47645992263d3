"""Servers restarted as another release."""
