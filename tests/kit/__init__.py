"""What the tests of several rooms share. Nothing here is a test, and nothing is imported from a `test_*` file.

| module | what it gives |
|---|---|
| `rig` | a broker in this process: fake transports, a manual clock, a disk in memory, events kept: `async with running_rig()` |
| `bystander` | another client of a rig, which works on while something else happens |
| `valid_requests` | a request of every API and version that is answered |
| `produce_and_fetch`, `disk_rig` | steps on a rig that several files of tests take |
| `transactions/` | steps of transactions: in two calls, in two phases, of ids that expire |
| `transactions/faulty_world` | producers that work at random while a broker fails at random, from a seed, and the oracle |
| `groups/` | a group coordinator over a log in memory; groups in each state; requests of members and producers, and frames |
| `processes/` | `stuntbroker serve` as a process, pytest on a stranger's files, a container engine, JVMs that start quickly |
| `logs` | batches, and partition logs in a folder, without a broker |
| `message_samples` | random values of every message, made from the schemas |
| `cases` | many small cases in one test |
| `control_rules` | rules of faults and stops in a line |
| `page_browser` | a browser without screen, script and style, for the page of the control API |
"""
