"""Where arrival rates are in a capacity region: decided on the decimals of the scenario, exactly."""

from __future__ import annotations

import pytest

from elastiqueue.api.solve import capacity
from elastiqueue.engines.capacity import bounds_values, position_of
from elastiqueue.scenarios.reading import scenario_from

BENT = [[3, 0], [2, 2], [0, 3]]  # facets 2 s1 + s2 <= 6 and s1 + 2 s2 <= 6, which meet in (2, 2)
LAWS = {"binomial": {"trials": 100}, "batch_bernoulli": {"batch": 60}, "poisson": {}}


def cluster(arrivals, **changes):
    return scenario_from({"model": "cluster", "servers": 1, "configurations": BENT, "arrivals": arrivals} | changes)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("intensity", "changes", "dominant", "interior"),
    [
        ({"mean": [1.8, 1.9]}, {}, {0, 1}, {1}),  # (2, 2) - .1 (2, 1)
        ({"mean": [1.6, 1.8]}, {}, {0, 1}, {1}),
        ({"mean": [0.9, 0.95]}, {"job_sizes": {"values": [1, 11], "probabilities": [0.9, 0.1]}}, {0, 1}, {1}),
        ({"load": 0.5, "direction": [3.8, 3.6]}, {"servers": 10}, {0, 1}, {0}),  # 10 (2, 2) - (1, 2)
        ({"mean": [0.5, 1.5]}, {"configurations": [[2, 1], [1, 2]]}, {0, 2}, {2}),  # meets s1 + s2 = 3 in (1, 2)
    ],
)
def test_corners(law, intensity, changes, dominant, interior):
    found = position_of(cluster({"law": law, **LAWS[law], **intensity}, **changes))
    assert found.where == "inside"
    assert set(found.dominant) == dominant
    assert set(found.dominant_interior) == interior


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("direction", [[2, 2], [2.2, 1.6], [2.6, 0.8], [1.8, 2.1], [2.31, 1.38]])
def test_a_load_of_exactly_one_is_on_the_boundary(law, direction):
    scenario = cluster({"law": law, **LAWS[law], "load": 1.0, "direction": direction}, servers=3)
    found = capacity(scenario).facts
    assert (found["position"], found["inside"]) == ("boundary", False)
    assert found["largest_stable_load"] == found["largest_rho"] == 1.0
    assert found["dominant"] is None
    for load, where in ((0.999999999999, "inside"), (1.000000000001, "outside")):
        near = cluster({"law": law, **LAWS[law], "load": load, "direction": direction}, servers=3)
        assert position_of(near).where == where


def test_bounds_on_the_boundary_are_refused():
    facet = cluster({"law": "poisson", "load": 1.0, "direction": [2.2, 1.6]}, facet=0)
    single = scenario_from({"model": "single_type", "servers": 3, "arrivals": {"law": "poisson", "load": 1}})
    for scenario in (facet, single):
        with pytest.raises(ValueError, match="must be inside the capacity region, the distance to its boundary is 0"):
            bounds_values(scenario)
