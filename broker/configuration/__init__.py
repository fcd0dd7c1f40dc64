"""Properties: what there is (`properties.py`), what a broker was given, and what clients change while it runs.

The values in force are a `BrokerConfig`, which rooms get handed. Not here: where values are read from, which is the command
line's (`cli`), and the properties of groups, whose rules are in `groups`.
"""
