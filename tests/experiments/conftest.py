"""A Ray cluster."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def ray_cluster() -> Iterator[None]:
    """Of one machine with two processors; RAY_ADDRESS names it."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("RAY_worker_niceness", "0")  # else whatever the machine does besides comes first
        head = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        environment.setenv("RAY_ADDRESS", cluster.address)
        try:
            yield
        finally:
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
