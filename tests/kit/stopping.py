"""Helpers for the tests of stops, such as images of the files as a broker that ended at a stop would leave them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.kit.rig import Client, Rig, turn


def phase_of(rig: Rig, transactional_id: str = "pay") -> str:
    txn = rig.broker.transactions.state_of(transactional_id)
    return "" if txn is None else str(txn.phase.kafka_name)


async def settled(client: Client) -> list[bytes]:
    """Let the event loop do everything that needs no time; return the frames that were sent."""
    await turn(12)
    return client.answers()


class Images:
    """Copies of a data folder; each call adds a copy, as a process that ended at that moment would leave the folder."""

    def __init__(self, folder: Path, into: Path) -> None:
        self._folder = folder
        self._into = into
        self.folders: list[Path] = []

    def __call__(self) -> None:
        image = self._into / str(len(self.folders))
        shutil.copytree(self._folder, image)
        self.folders.append(image)
