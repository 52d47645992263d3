"""Links through Toxiproxy, where packet rules are not allowed."""
