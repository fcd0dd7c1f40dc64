"""Configuration: the known properties (`properties.py`), the values given at startup, and changes while the broker runs.

`BrokerConfig` holds the values in force and is passed to other packages. Not here: reading values from the command line and
from files (`cli`), and the configuration of groups (`groups`).
"""
