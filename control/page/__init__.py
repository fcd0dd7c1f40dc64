"""The page of a broker for people: HTML that the server makes, and that follows what happens in the broker.

Scripts use the API in `http/`.
"""
