"""Structured Streaming and batch on Spark, exactly once: `spark.dataSource.register(StuntbrokerDataSource)`.

Sources, sinks and the audit's tasks, as Spark's Python data source API asks for them. The rest of the pipeline needs no PySpark.
"""

from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource

__all__ = ["StuntbrokerDataSource"]
