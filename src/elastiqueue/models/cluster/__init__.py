"""Paper B's cluster."""
