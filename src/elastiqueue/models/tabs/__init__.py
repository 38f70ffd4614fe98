"""TABS and JIQ."""
