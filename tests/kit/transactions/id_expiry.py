"""A broker whose transactional ids expire after ten seconds."""

from __future__ import annotations

from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.kit.rig import Client

AGE_MS = 10_000
PROPERTIES = {"transactional.id.expiration.ms": str(AGE_MS)}


def ids(client: Client) -> set[str]:
    return {each.transactional_id for each in client.ask(ListTransactionsRequest(), 0).transaction_states}
