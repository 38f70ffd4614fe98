"""Estimators and intervals."""
