"""The Spark data source `stuntbroker`, which creates the readers of `source` and the writers of `sink`.

Spark creates this object anew in many processes, so it holds only the options. Workers import the class by name and need
the package installed or on their PYTHONPATH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


class StuntbrokerDataSource(DataSource):
    """Data source for `spark.read` and `readStream` (see `source`), `df.write` and `writeStream` (see `sink`)."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "stuntbroker"

    def schema(self) -> str:
        """Return the columns, with headers if `includeHeaders` is set."""
        from stuntbroker.pipeline.spark.source_options import columns, includes_headers

        return ", ".join(map(" ".join, columns(includes_headers(self.options))))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from stuntbroker.pipeline.spark.source import BatchReader

        return BatchReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        from stuntbroker.pipeline.spark.source import StreamReader

        return StreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch job."""
        from stuntbroker.pipeline.spark.sink import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a streaming query."""
        from stuntbroker.pipeline.spark.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)
