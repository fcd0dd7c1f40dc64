"""Structured Streaming and batch on Spark, exactly once: `spark.dataSource.register(StuntbrokerDataSource)`."""

from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource

__all__ = ["StuntbrokerDataSource"]
