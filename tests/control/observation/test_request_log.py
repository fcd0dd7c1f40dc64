"""States of the requests in the request log."""

from __future__ import annotations

from stuntbroker.control.control import Control
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from tests.kit.control_rules import rule
from tests.kit.rig import Rig, frame


def test_a_request_is_closed_when_its_connection_ends_without_a_response(rig: Rig, control: Control) -> None:
    control.stops.add("metadata.before", {"times": 2})
    clients = [rig.client(peer=("127.0.0.1", port)) for port in (50_001, 50_002)]
    for client in clients:
        client.feed(frame(MetadataRequest([]), 9))
    assert [each.state for each in control.requests.requests] == ["waits", "waits"]

    clients[0].disconnect()
    assert [each.state for each in control.requests.requests] == ["closed", "waits"]

    control.injector.add(rule("Metadata", no_response=True))
    clients[1].disconnect()
    unlucky = rig.client(peer=("127.0.0.1", 50_003))
    unlucky.feed(frame(MetadataRequest([]), 9))
    unlucky.disconnect()
    assert [each.state for each in control.requests.requests] == ["closed", "closed", "no_response"]
