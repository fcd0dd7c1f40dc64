"""The metadata of a cluster, restored from the journal when a broker starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stuntbroker.broker.metadata.features import Features
from stuntbroker.broker.metadata.image import Image, ImageError, image_of
from stuntbroker.broker.metadata.quotas import ClientQuotas
from stuntbroker.protocol.data_folder import JOURNAL
from stuntbroker.protocol.features import TRANSACTION_VERSION
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.configuration.dynamic_config import DynamicConfig
    from stuntbroker.broker.metadata.acls import Acls
    from stuntbroker.broker.metadata.identity import Identity
    from stuntbroker.broker.metadata.metadata_journal import MetadataJournal
    from stuntbroker.broker.metadata.scram_credentials import ScramCredentials
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.storage.data_dir import DataDir


class ClusterMetadata:
    """Features, quotas, and what few brokers use: dynamic configuration, ACLs and SCRAM credentials, loaded on first use.

    Restoring them also restores the topics.
    """

    def __init__(
        self,
        identity: Identity,
        data_dir: DataDir,
        journal: MetadataJournal,
        config: BrokerConfig,
        topics: Topics,
        events: Events,
        config_changed: Callable[[], None],
    ) -> None:
        """Raises StorageError. `config_changed`: called after properties have changed while the broker runs."""
        self._identity = identity
        self._data_dir = data_dir
        self._journal = journal
        self._config = config
        self._topics = topics
        self._config_changed = config_changed
        self._dynamic_config: DynamicConfig | None = None
        self._acls: Acls | None = None
        self._scram_credentials: ScramCredentials | None = None
        try:
            self._image = image = image_of(data_dir.read_journal())
        except ImageError as fault:
            raise data_dir.damaged(fault.line, str(fault)) from fault
        if image.broker_configs:
            self._load_dynamic_config()  # Before the logs are read, which follow it.
        topics.restore(image, events)
        if identity.is_new:
            if image.topics or image.others or image.quotas:
                events.warning("cluster_id_lost", folder=data_dir.path, now=identity.cluster_id)
            identity.write(data_dir)
        self.producer_ids_below = max(
            image.others.get("producer_ids_below", 0), config["stuntbroker.initial.producer.id"]
        )
        """The first producer id that was not reserved before the start."""
        self.features = Features(journal.write, image.others)
        self.quotas = ClientQuotas(journal.write, image.quotas)
        self._compact_journal(image)
        data_dir.open_journal()
        before = self.features.start_at(config)
        if before is not None and not identity.is_new:
            after = self.features.transaction_version
            events.warning("feature_set_by_property", feature=TRANSACTION_VERSION, from_level=before, to_level=after)

    def _compact_journal(self, image: Image) -> None:
        kept = [*self._topics.as_changes(), *self.features.as_changes(), *self.quotas.as_changes()]
        if image.acls:
            from stuntbroker.broker.metadata import acls

            kept += map(acls.change_of, image.acls)
        if image.scram_users:
            from stuntbroker.broker.metadata import scram_credentials

            kept += (scram_credentials.change_of(*each) for each in image.scram_users.items())
        if image.broker_configs:
            kept += self.dynamic_config.as_changes()
        self._data_dir.compact_journal([*kept, {"producer_ids_below": self.producer_ids_below}])

    def reserve_producer_ids(self, below: int) -> None:
        """Write to the journal that producer ids below this one may be in use. Raises StorageError."""
        self._journal.write({"producer_ids_below": below})

    @property
    def dynamic_config(self) -> DynamicConfig:
        """Dynamic broker configuration; loaded on first use."""
        return self._dynamic_config or self._load_dynamic_config()

    def _load_dynamic_config(self) -> DynamicConfig:
        from stuntbroker.broker.configuration.dynamic_config import DynamicConfig, Refusal

        levels = self._image.broker_configs
        try:
            dynamic_config = DynamicConfig(self._config, self._identity.node_id, levels, self._journal.write)
        except Refusal as refusal:
            raise StorageError(
                f"{self._data_dir.path}/{JOURNAL} sets a property of the broker that it cannot have: {refusal}; "
                "put back a copy of that file, or give another --data-dir"
            ) from refusal
        dynamic_config.changed = self._config_changed
        self._dynamic_config = dynamic_config
        return dynamic_config

    @property
    def acls(self) -> Acls:
        """ACLs; loaded on first use."""
        if self._acls is None:
            from stuntbroker.broker.metadata.acls import Acls

            self._acls = Acls(self._journal.write, self._image.acls)
        return self._acls

    @property
    def scram_credentials(self) -> ScramCredentials:
        """SCRAM credentials of users; loaded on first use."""
        if self._scram_credentials is None:
            from stuntbroker.broker.metadata.scram_credentials import ScramCredentials

            self._scram_credentials = ScramCredentials(self._journal.write, self._image.scram_users)
        return self._scram_credentials
