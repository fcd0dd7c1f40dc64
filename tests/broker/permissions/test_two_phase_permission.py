"""The broker's authorizer decides about two-phase commit, for the principal of the connection."""

from __future__ import annotations

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.permissions.authorizer import ANONYMOUS, Client, ConfiguredAuthorizer, Principal
from stuntbroker.protocol.acls import Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.kit.rig import running_rig

Question = tuple[Principal, Operation, Resource, str]


class FakeClient:
    principal = ANONYMOUS
    host = "127.0.0.1"


class OnlyAlice:
    """An authorizer that allows everything to one user, and records its calls."""

    def __init__(self) -> None:
        self.requests: list[Question] = []

    checks_every_request = False

    def allows(self, client: Client, operation: Operation, resource: Resource, name: str) -> bool:
        self.requests.append((client.principal, operation, resource, name))
        return client.principal.name == "alice"

    def allows_some(self, client: Client, operation: Operation, resource: Resource) -> bool:
        return client.principal.name == "alice"


async def test_two_phase_commit_is_authorized_for_the_principal_of_the_connection() -> None:
    async with running_rig() as rig:
        authorizer = rig.broker.authorizer = OnlyAlice()
        client, alice = rig.client(), rig.client()
        alice.connection.principal = Principal("User", "alice")
        request = InitProducerIdRequest("payments", 60_000, enable_2pc=True)

        assert client.ask(request, 6).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert alice.ask(request, 6).error_code == 0

        resource = (Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, "payments")
        assert authorizer.requests == [(ANONYMOUS, *resource), (Principal("User", "alice"), *resource)]
        (denied,) = [facts for event, facts in rig.events.kept if event == "permission_denied"]
        assert (denied["operation"], denied["name"]) == ("TWO_PHASE_COMMIT", "payments")


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize(("name", "is_denied"), [("pay-1", True), ("ship", True), ("ship-1", False), ("pay", False)])
def test_only_two_phase_commit_is_denied_and_only_to_the_ids_of_the_property(
    operation: Operation, name: str, is_denied: bool
) -> None:
    authorizer = ConfiguredAuthorizer(BrokerConfig({"stuntbroker.deny.two.phase.commit": "pay-*, ship"}))

    allowed = authorizer.allows(FakeClient(), operation, Resource.TRANSACTIONAL_ID, name)

    assert allowed == (operation is not Operation.TWO_PHASE_COMMIT or not is_denied)
