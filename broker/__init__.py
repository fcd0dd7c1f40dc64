"""The server: connections and listeners, the clock and timers, topics, configuration, and one handler for each API.

Every event in a running broker starts here; calls into other packages use their public objects. Not here: the wire format
(`protocol`), log files (`storage`), the rules of transactions (`coordinator`) and of consumer groups (`groups`). Those
packages depend neither on sockets nor on this package.
"""
