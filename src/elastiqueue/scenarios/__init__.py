"""Scenarios: the parameters of each kind of system, validated."""
