"""TLS and SASL as brokers and clients both need them: keystores, TLS contexts, JAAS configuration, SCRAM.

What a broker decides with them is in `broker/security/`; no sockets here.
"""
