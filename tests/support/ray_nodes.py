"""Several Ray nodes on this machine: `python ray_nodes.py CPUS CPUS ...`; the first is the head.

Prints a line of JSON, the address and each node's raylet, and stops them all once its standard input ends.
"""

from __future__ import annotations

import json
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Start the nodes, say so, and wait."""
    sizes = [float(size) for size in sys.argv[1:]]
    common = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    nodes = []
    cluster = Cluster(initialize_head=False)
    for size in sizes:
        nodes.append(cluster.add_node(wait=False, num_cpus=size, **common))
    cluster.wait_for_nodes()
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
