"""Keys, certificates and users as Kafka's properties name them: keystores, TLS contexts, JAAS configuration.

Listeners and clients share this room. What a listener does with it is in `broker/security/`, what a client does in
`client/security.py` and `client/security_properties.py`.
"""
