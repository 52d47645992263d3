"""HTTP/1.1 for systems that speak it: one connection, one request at a time, no redials."""
