"""Elections, locks and producer ids."""
