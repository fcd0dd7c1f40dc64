"""Start-up time matters: a list has all modules that are loaded when the broker is ready, and it must not grow."""

from __future__ import annotations

import os
import subprocess
import sys

PROBE = """
import os, sys
before = set(sys.modules)
from stuntbroker.cli.serving import serve
def tell(address, ready_file):
    print("\\n".join(sorted(set(sys.modules) - before)))
    sys.stdout.flush()
    os._exit(0)
serve._write_ready_file = tell
serve.serve({"--port": ["0"]})
"""

NEVER = {
    "aiokafka", "argparse", "cramjam", "gzip", "hypothesis", "importlib.metadata", "logging.config", "numpy",
    "prometheus_client", "pytest", "rich", "shutil", "structlog", "tempfile", "tomllib", "unittest", "urllib.request", "zlib",
}  # fmt: skip
"""Modules that are loaded only when needed: structlog at the first event, compression codecs at the first compressed batch."""

OURS = {
    "stuntbroker", "stuntbroker.broker", "stuntbroker.broker.random_source", "stuntbroker.broker.clock",
    "stuntbroker.broker.cluster", "stuntbroker.broker.cluster.nodes", "stuntbroker.broker.configuration",
    "stuntbroker.broker.configuration.config", "stuntbroker.broker.configuration.dynamic_properties",
    "stuntbroker.broker.configuration.listener_properties", "stuntbroker.broker.configuration.properties",
    "stuntbroker.broker.connections",
    "stuntbroker.broker.connections.client_connection", "stuntbroker.broker.connections.connection",
    "stuntbroker.broker.connections.listener", "stuntbroker.broker.connections.open_connections",
    "stuntbroker.broker.connections.read_pace",
    "stuntbroker.broker.connections.request_memory", "stuntbroker.broker.file_limits", "stuntbroker.broker.housekeeping",
    "stuntbroker.broker.metadata", "stuntbroker.broker.metadata.cluster_metadata", "stuntbroker.broker.metadata.features",
    "stuntbroker.broker.metadata.identity", "stuntbroker.broker.metadata.image", "stuntbroker.broker.metadata.metadata_journal",
    "stuntbroker.broker.metadata.quotas", "stuntbroker.broker.metadata.topics",
    "stuntbroker.broker.connections.binding",
    "stuntbroker.broker.observation", "stuntbroker.broker.observation.events", "stuntbroker.broker.requests",
    "stuntbroker.broker.permissions", "stuntbroker.broker.permissions.authorizer", "stuntbroker.broker.requests.apis",
    "stuntbroker.broker.requests.fetch_sessions", "stuntbroker.broker.requests.interception",
    "stuntbroker.broker.requests.request", "stuntbroker.broker.requests.router",
    "stuntbroker.broker.requests.routes",
    "stuntbroker.broker.requests.slices", "stuntbroker.broker.server", "stuntbroker.broker.temporary_folder",
    "stuntbroker.broker.timers", "stuntbroker.broker.transactions", "stuntbroker.broker.transactions.fences",
    "stuntbroker.broker.transactions.marker_slices", "stuntbroker.broker.transactions.producer_ids",
    "stuntbroker.broker.transactions.registry", "stuntbroker.broker.transactions.txn_markers", "stuntbroker.cli",
    "stuntbroker.cli.arguments", "stuntbroker.cli.serving", "stuntbroker.cli.serving.serve", "stuntbroker.coordinator",
    "stuntbroker.coordinator.actor",
    "stuntbroker.coordinator.machine", "stuntbroker.coordinator.records", "stuntbroker.coordinator.requests",
    "stuntbroker.coordinator.state", "stuntbroker.protocol", "stuntbroker.protocol.acls", "stuntbroker.protocol.addresses",
    "stuntbroker.protocol.api_keys",
    "stuntbroker.protocol.batches", "stuntbroker.protocol.batches.records", "stuntbroker.protocol.caches",
    "stuntbroker.protocol.compiler", "stuntbroker.protocol.crc", "stuntbroker.protocol.data_folder",
    "stuntbroker.protocol.errors", "stuntbroker.protocol.features", "stuntbroker.protocol.hashing",
    "stuntbroker.protocol.headers",
    "stuntbroker.protocol.messages",
    "stuntbroker.protocol.messages.producer_snapshot", "stuntbroker.protocol.messages.transaction_log_key",
    "stuntbroker.protocol.messages.transaction_log_value", "stuntbroker.protocol.primitives",
    "stuntbroker.protocol.topic_names", "stuntbroker.protocol.transaction_states",
    "stuntbroker.protocol.versions",
    "stuntbroker.storage", "stuntbroker.storage.data_dir", "stuntbroker.storage.disk",
    "stuntbroker.storage.errors", "stuntbroker.storage.journal", "stuntbroker.storage.large_batch",
    "stuntbroker.storage.leader_epochs", "stuntbroker.storage.log_config", "stuntbroker.storage.marker",
    "stuntbroker.storage.open_files", "stuntbroker.storage.ownership", "stuntbroker.storage.partition",
    "stuntbroker.storage.points", "stuntbroker.storage.producers", "stuntbroker.storage.recovery",
    "stuntbroker.storage.segment", "stuntbroker.storage.segmented_log", "stuntbroker.storage.syncer",
    "stuntbroker.storage.turn",
}  # fmt: skip
"""Add a module only for a good reason. Remove a module that is no longer loaded at the start."""


def loaded() -> set[str]:
    # Variables such as STUNTBROKER_CACHE of developers would load the module that reads properties from the environment.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "STUNTBROKER_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=plain, capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.split())


def test_start_up_imports_only_the_modules_that_it_needs() -> None:
    actual = loaded()

    assert actual & NEVER == set()
    assert [name for name in actual if name.startswith("stuntbroker.broker.handlers")] == []
    assert sorted(name for name in actual if name.split(".")[0] == "stuntbroker" and name not in OURS) == []
    assert sorted(OURS - actual) == []
