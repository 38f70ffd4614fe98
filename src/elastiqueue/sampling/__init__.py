"""Random numbers and distributions: generator, streams, phase-type and discrete distributions, arrival rates."""
