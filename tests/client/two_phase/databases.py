"""An application's database, which stores its rows together with the prepared state of their transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from stuntbroker.client import PreparedTxnState

TABLES = (
    "CREATE TABLE payments (number INTEGER PRIMARY KEY)",
    "CREATE TABLE prepared (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL)",
)


class Connection(Protocol):
    """The common interface of SQLite's and PostgreSQL's connections."""

    def execute(self, query: Any, parameters: Any = ()) -> Any:
        """Run a statement, in a transaction that it begins if there is none."""

    def commit(self) -> None:
        """Commit the transaction."""

    def close(self) -> None:
        """End, without what was not committed."""


class Database:
    """A database of two tables. A connection that ends without a commit changes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create_tables(self) -> None:
        """Create the tables, empty."""
        for table in TABLES:
            self._connection.execute(table)
        self._connection.commit()

    def write(self, number: int, state: PreparedTxnState) -> None:
        """Write both rows, uncommitted. Texts are our own: no parameter is needed, whose form the databases disagree about."""
        self._connection.execute(f"INSERT INTO payments VALUES ({number:d})")
        self._connection.execute("DELETE FROM prepared")
        self._connection.execute(f"INSERT INTO prepared VALUES (1, '{state}')")

    def commit(self) -> None:
        """Commit what was written."""
        self._connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def state(self) -> PreparedTxnState:
        """Return the state that was committed last."""
        row = self._connection.execute("SELECT state FROM prepared").fetchone()
        return PreparedTxnState.parse(row[0] if row else "")

    def numbers(self) -> list[int]:
        """Return the payments, in order."""
        return [row[0] for row in self._connection.execute("SELECT number FROM payments ORDER BY number").fetchall()]


def connect(address: str) -> Database:
    """Return the database of a PostgreSQL at an address, or of SQLite in a file; it belongs to the calling process."""
    return Database(psycopg.connect(address) if "://" in address else sqlite3.connect(address))


@contextmanager
def sqlite_file(folder: Path) -> Iterator[str]:
    """A database in a file: its path."""
    yield str(folder / "payments.db")
