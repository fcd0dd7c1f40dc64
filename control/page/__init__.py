"""The web page of a broker: server-rendered HTML that shows the broker's state live, with forms to change faults and stops.

Programs use the API in `http/` instead.
"""
