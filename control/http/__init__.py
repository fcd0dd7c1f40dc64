"""The control API: its operations, and the schemas of what they take.

Each operation calls what `control/` can do; nothing is decided here. `server.py` beside this folder serves them, and the page for
people in `page/`.
"""
