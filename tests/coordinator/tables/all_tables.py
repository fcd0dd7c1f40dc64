"""All tables of decisions."""

from __future__ import annotations

import table_kept
import table_kip_588
from table_by_itself import MARKERS_WRITTEN, TIME_OUT
from table_end_txn import END_TXN_V4, END_TXN_V5
from table_init_producer_id import INIT_PRODUCER_ID
from table_partitions import ADD_PARTITIONS, VERIFY

PLAIN = (INIT_PRODUCER_ID, ADD_PARTITIONS, VERIFY, END_TXN_V4, END_TXN_V5, TIME_OUT, MARKERS_WRITTEN)
TABLES = (*PLAIN, *table_kept.TABLES, *table_kip_588.TABLES)
