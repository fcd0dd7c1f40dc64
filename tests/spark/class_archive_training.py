"""Run a Spark session that does what the tests do most: python class_archive_training.py JVM_OPTIONS."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": sys.argv[1],
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
        }
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        spark.createDataFrame([(1, "a")], "number int, text string").groupBy("text").count().collect()
        texts = Path(folder, "texts")
        texts.mkdir()
        (texts / "one").write_text("a\nb\n", encoding="utf-8")
        stream = spark.readStream.text(str(texts)).writeStream.format("noop").trigger(availableNow=True)
        stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()  # The JVM then ends in order, and writes its class archive.
    gateway.proc.wait()


if __name__ == "__main__":
    main()
