"""The query of the demo: it turns every order into a payment. `run.py` starts it, and restarts it when it dies.

Without the option `faults`, and with `stuntbroker` instead of `sabotaged`, this is an ordinary query.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from faults import SabotagedDataSource
from pyspark.sql import SparkSession


def main(bootstrap: str, folder: Path, rows_per_batch: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")  # Two cores, four attempts of every task.
        .appName("orders to payments")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    (folder / "faults" / "driver.pid").write_text(f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    spark.dataSource.register(SabotagedDataSource)

    orders = (
        spark.readStream.format("sabotaged")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    payments = orders.selectExpr(
        "get_json_object(string(value), '$.customer') AS key",
        "to_json(named_struct("
        "  'order', get_json_object(string(value), '$.order'),"
        "  'euro', round(double(get_json_object(string(value), '$.cents')) / 100, 2))) AS value",
    )
    query = (
        payments.writeStream.format("sabotaged")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "payments")
        .option("sinkId", "payments-sink")
        .option("decisions", f"dir:{folder / 'decisions'}")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("faults", str(folder / "faults"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
