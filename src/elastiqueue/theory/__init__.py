"""Closed forms, capacity regions, heavy-traffic bounds and stability conditions."""
