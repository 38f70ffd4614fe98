"""One central queue: delayed-off, setup, always on."""
