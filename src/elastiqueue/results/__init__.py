"""Files of results: tidy tables, provenance, checksums, comparison with the reference."""
