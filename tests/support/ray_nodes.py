"""Ray nodes on this machine, which are added by lines of JSON on standard input; the first is the head.

`{"cpus": 1}` adds a node and prints its cluster's address and the process id of its raylet. All nodes stop once the
input ends.
"""

from __future__ import annotations

import json
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Do what each line says."""
    cluster = Cluster(initialize_head=False)
    for line in sys.stdin:
        wish = json.loads(line)
        node = cluster.add_node(num_cpus=wish["cpus"], object_store_memory=80 * 2**20, include_dashboard=False)
        raylet = node.all_processes["raylet"][0].process.pid
        print(json.dumps({"address": cluster.address, "raylet": raylet}), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
