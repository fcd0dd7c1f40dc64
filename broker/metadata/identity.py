"""The identity of a broker's data folder: cluster id and node id, which `meta.properties` keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.random_source import RandomSource
    from stuntbroker.storage.data_dir import DataDir


class Identity(NamedTuple):
    """Cluster id and node id of a broker."""

    cluster_id: str
    node_id: int
    """Id of the first node."""
    is_new: bool
    """Whether the data folder has had no broker before."""

    def write(self, data_dir: DataDir) -> None:
        """Write `meta.properties`. Raises StorageError."""
        data_dir.write_properties({"version": "1", "cluster.id": self.cluster_id, "node.id": str(self.node_id)})


def identity_of(data_dir: DataDir, config: BrokerConfig, random_source: RandomSource) -> Identity:
    """Return the identity in the data folder, or a new one. Raises StorageError if the folder belongs to another node."""
    from stuntbroker.storage.ownership import uuid_text

    properties = data_dir.properties()
    cluster_id = (
        properties.get("cluster.id") or config["stuntbroker.cluster.id"] or uuid_text(random_source.random_bytes(16))
    )
    known = properties.get("node.id")
    if known is None:
        return Identity(cluster_id, config["node.id"], True)
    if known != str(config["node.id"]) and "node.id" in config.given:
        raise StorageError(
            f"the data folder {data_dir.path} belongs to node {known}, not {config['node.id']}: "
            "give that node.id, or another --data-dir"
        )
    return Identity(cluster_id, int(known), False)
