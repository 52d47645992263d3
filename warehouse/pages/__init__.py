"""The static pages over all nights: what tonight brought, the matrix, findings and trends."""
