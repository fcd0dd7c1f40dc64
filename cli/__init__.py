"""The command line, `stuntbroker COMMAND`: this package checks arguments and prints results.

`commands/` talks to brokers, `data_folder/` reads files, `serving/` runs a broker, `shims/` has Kafka's own commands.
The work itself is done by the packages that they call.
"""
