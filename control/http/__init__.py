"""The control API: its operations, and the schemas of what they take.

Each operation validates a request and calls a function of `control/`; what the operation does is not here. `control/server.py`
serves the operations, and the web page in `page/`.
"""
