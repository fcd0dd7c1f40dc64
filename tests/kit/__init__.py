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
"""
