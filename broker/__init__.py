"""The server: connections and listeners, the clock and timers, topics, configuration, and one handler for each API.

Everything that happens in a running broker begins here, and what it does to the other rooms goes through their public
objects. Not here: what bytes mean (`protocol`), how records lie in files (`storage`), the rules of transactions
(`coordinator`) and of consumer groups (`groups`). Those rooms know neither sockets nor this one.
"""
