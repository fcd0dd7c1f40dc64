"""Source and sink on a broker that requires TLS and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stuntbroker
from stuntbroker.pipeline.spark.partitioning import partitioned
from tests.kit.keystore_files import PASSWORD, write_keystores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stuntbroker.fixture.broker import Broker

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, dict[str, str]]]:
    """Yield the broker, and the options of a query with the right credentials."""
    folder: Path = tmp_path_factory.mktemp("keystores")
    write_keystores(folder)
    properties = {
        "listeners": "SASL_SSL://localhost:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "stuntbroker.users": "alice:secret",
        "ssl.keystore.location": folder / "server.pem",
        "transaction.two.phase.commit.enable": True,
    }
    with stuntbroker.broker(properties, topics={"orders": 2}) as broker:
        yield (
            broker,
            {
                "kafka.bootstrap.servers": broker.bootstrap,
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": f'{LOGIN} username="alice" password="secret";',
                "kafka.ssl.truststore.location": str(folder / "trust.pkcs12"),
                "kafka.ssl.truststore.password": PASSWORD,
            },
        )


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_the_source_reads_the_rows_of_the_sink_over_tls_with_a_password(
    spark: SparkSession, secured: tuple[Broker, dict[str, str]], mode: str
) -> None:
    broker, options = secured
    rows = spark.range(100).selectExpr(f"concat('{mode} ', id) AS value", "CAST(id AS string) AS key")
    if mode == "single":
        rows = partitioned(rows, "orders", broker.bootstrap, options=options)

    rows.write.format("stuntbroker").options(**options, topic="orders", sinkId=mode, mode=mode).mode("append").save()

    expected = sorted(f"{mode} {number}" for number in range(100))
    assert sorted(value.decode() for value in broker.values("orders") if value.decode().startswith(mode)) == expected
    read = spark.read.format("stuntbroker").options(**options, subscribe="orders").load()
    values = [row.value for row in read.selectExpr("CAST(value AS string) AS value").collect()]
    assert sorted(value for value in values if value.startswith(mode)) == expected


def test_a_wrong_password_ends_a_query_with_the_reason(
    spark: SparkSession, secured: tuple[Broker, dict[str, str]]
) -> None:
    _, options = secured
    wrong: dict[str, Any] = options | {"kafka.sasl.jaas.config": f'{LOGIN} username="alice" password="other";'}

    with pytest.raises(Exception, match="refuses user 'alice'"):
        spark.read.format("stuntbroker").options(**wrong, subscribe="orders").load().count()
