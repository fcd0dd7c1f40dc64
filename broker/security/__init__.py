"""Authentication of clients: what a listener needs for TLS and SASL, users and their passwords, the rules of an authentication.

What an authenticated client may do is decided by `broker/permissions/authorizer.py`. Nothing here is loaded while all listeners
are PLAINTEXT, except for SCRAM credentials in the journal.
"""
