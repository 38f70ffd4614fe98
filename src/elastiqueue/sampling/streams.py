"""Random streams: one replication of one scenario is one stream, whoever simulates it, where and when.

    stream = xoshiro256++ seeded by SeedSequence(seed, spawn_key=(scenario digest, purpose, replication index))

The digest covers what determines the distribution of the sample path and nothing else, so that adding replications,
another power model or another order of the jobs leaves every bit as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the workflow reads digests each time it is parsed: no numpy for that
    import numpy as np
    from numpy.typing import NDArray

SIMULATION, PILOT = 0, 1


def canonical_json(value: Any) -> str:
    """One text for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Mapping[str, Any]) -> str:
    """128-bit hexadecimal digest of a JSON-able mapping."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:32]


def scenarios_digest(scenarios: Iterable[Mapping[str, Any]]) -> str:
    """Digest of a set of dumped scenarios, by which two runs tell whether an experiment is the same in both."""
    return digest({"scenarios": sorted({canonical_json(one) for one in scenarios})})[:16]


def stream(seed: int, scenario_digest: str, replication: int, purpose: int = SIMULATION) -> NDArray[np.uint64]:
    """The four words that start the generator of one replication, shape (4,)."""
    import numpy as np

    sequence = np.random.SeedSequence(seed, spawn_key=(int(scenario_digest, 16), purpose, replication))
    return np.asarray(sequence.generate_state(4, np.uint64), np.uint64)
