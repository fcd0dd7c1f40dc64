"""Exactly-once source and sink for Spark, streaming and batch: `spark.dataSource.register(StuntbrokerDataSource)`.

The package implements Spark's Python data source API, and runs the audit's tasks. The rest of the pipeline needs no PySpark.
"""

from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource

__all__ = ["StuntbrokerDataSource"]
