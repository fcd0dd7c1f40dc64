"""Permissions: what a client may do. The authorizer decides; the gate asks it before a request reaches its handler.

With `authorizer.class.name`, ACLs decide by Kafka's rules (`acl_authorizer.py`), and the gate (`gate.py`) checks every request:
it refuses what the client may not do, and passes the other parts of the request on. Without an authorizer, neither of the two is
loaded, and everything is allowed but the two-phase commit of the ids in `stuntbroker.deny.two.phase.commit`. Who a client is, is
decided in `broker/security/`; the ACLs are in `broker/metadata/acls.py`.
"""
