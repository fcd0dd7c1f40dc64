"""The control API over HTTP: the server, its operations and their schemas.

Each answers by what the rest of `control/` can do; nothing is decided here. The page for people is in `page/`.
"""
