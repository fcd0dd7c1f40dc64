"""The page of a broker for people: its state and its rules as HTML, made by the server, which follow what happens.

What scripts use is in `http/`.
"""
