"""The command line, `stuntbroker COMMAND`: arguments are checked here, and results are printed here.

`commands/` speaks to brokers, `data_folder/` reads files, `serving/` is a broker's process, `shims/` are Kafka's own commands.
What they do is in the rooms that they call.
"""
