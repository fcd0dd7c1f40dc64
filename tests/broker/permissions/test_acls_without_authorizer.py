"""Without an authorizer, ACL requests are refused, and a property can deny two-phase commit to transactional ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from stuntbroker.protocol.messages.describe_acls_request import DescribeAclsRequest
from tests.kit.groups.group_requests import init
from tests.kit.rig import frame, running_rig

OK, REFUSED = ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DISABLED = ErrorCode.SECURITY_DISABLED
ACL = (5, "t", 3, "User:x", "*", 15, 2)
FILTER = (5, "t", 3, None, None, 15, 2)
CODES_AT = (0, 2, 5, 6)
"""Indexes, in ACL and FILTER, of the fields that must not be UNKNOWN: resource type, pattern type, operation, permission."""


@pytest.mark.parametrize(
    ("denied", "transactional_id", "code"),
    [
        ("", "t", OK),
        ("t", "t", REFUSED),
        ("t", "t1", OK),
        ("t", "T", OK),
        ("t*", "t1", REFUSED),
        ("t*", "s", OK),
        ("s, t-* ,u", "t-1", REFUSED),
        ("s, t-* ,u", "u", REFUSED),
        ("*", "anything", REFUSED),
        (",", "t", OK),
    ],
)
async def test_two_phase_commit_is_refused_to_ids_that_are_denied_it(
    denied: str, transactional_id: str, code: ErrorCode, data_dir: Path
) -> None:
    """The property stands in for ACLs of the operation TWO_PHASE_COMMIT on transactional ids (KIP-939)."""
    async with running_rig(data_dir, {"stuntbroker.deny.two.phase.commit": denied}) as rig:
        client = rig.client()
        assert init(client, transactional_id, two_phase=True, version=6).error_code == code
        assert init(client, transactional_id, two_phase=True, version=6, keep=True).error_code == code
        assert init(client, transactional_id, version=6).error_code == OK
        assert init(client, transactional_id, version=6, keep=True).error_code == OK


async def test_acl_requests_get_security_disabled_without_an_authorizer(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for version in (1, 2, 3):
            assert client.ask(DescribeAclsRequest(*FILTER), version).error_code == DISABLED
            new = client.ask(CreateAclsRequest([AclCreation(*ACL)] * 2), version)
            assert [each.error_code for each in new.results] == [DISABLED, DISABLED]
            gone = client.ask(DeleteAclsRequest([DeleteAclsFilter(*FILTER)] * 2), version)
            assert [each.error_code for each in gone.filter_results] == [DISABLED, DISABLED]


@pytest.mark.parametrize("at", CODES_AT)
@pytest.mark.parametrize("key", [29, 30, 31])
async def test_an_acl_of_an_unknown_kind_closes_the_connection(key: int, at: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        acl, wanted = ((*each[:at], 0, *each[at + 1 :]) for each in (ACL, FILTER))
        request = {
            29: DescribeAclsRequest(*wanted),
            30: CreateAclsRequest([AclCreation(*ACL), AclCreation(*acl)]),
            31: DeleteAclsRequest([DeleteAclsFilter(*FILTER), DeleteAclsFilter(*wanted)]),
        }[key]
        client.feed(frame(request, 3))
        assert client.transport.closed
