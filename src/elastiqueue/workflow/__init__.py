"""What the rules of the workflow call."""
