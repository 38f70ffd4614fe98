"""Scenarios: the parameters of each kind of system, validated."""

SUP_DISTANCE = "sup_distance"  # asked for as a metric: distance of recorded paths from the fluid path, in their place
