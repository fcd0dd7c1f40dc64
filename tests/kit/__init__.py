"""What the tests of several rooms share. Nothing here is a test, and nothing is imported from a `test_*` file.

| module | what it gives |
|---|---|
| `rig` | a broker in this process: fake transports, a manual clock, a disk in memory, events kept: `async with running_rig()` |
| `process` | `stuntbroker serve` as a process, and a client that sends frames over a socket |
| `bystander` | another client of a rig, which works on while something else happens |
| `valid_requests`, `group_requests` | a request of every API and version that is answered; requests of producers and groups |
| `two_phase`, `two_phase_more`, `produce_and_fetch`, `id_expiry`, `disk_rig` | steps on a rig that several files of tests take |
| `logs` | batches, and partition logs in a folder, without a broker |
| `group_world`, `group_states`, `group_wire` | a group coordinator over a log in memory; groups in each state; frames |
| `message_samples` | random values of every message, made from the schemas |
| `faulty_world` | producers that work at random while a broker fails at random, from a seed, and the oracle that looks on |
| `two_calls` | a transaction in two calls, by hand |
| `control_rules` | rules of faults and stops in a line |
| `pytest_run` | small test files of a stranger, and pytest that runs them |
| `page_browser` | a browser without screen, script and style, for the page of the control API |
| `engine` | a container engine, by its command |
| `class_archive` | JVMs that start in half of the processor time |
"""
