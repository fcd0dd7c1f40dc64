"""Helpers shared by the tests of several packages. This package contains no tests and imports nothing from `test_*` files.

| module | contents |
|---|---|
| `rig` | a broker in this process: fake transports, manual clock, disk in memory, recorded events: `async with running_rig()` |
| `bystander` | another client of a rig, which must keep working while something else fails |
| `valid_requests` | a valid request for every served API and version |
| `produce_and_fetch`, `disk_rig` | steps on a rig that several test files use |
| `transactions/` | steps of transactions: two calls, two-phase commit, expiring transactional ids |
| `transactions/faulty_world` | random producers, a randomly failing broker (from a seed), and the oracle |
| `groups/` | a group coordinator over a log in memory; groups in each state; requests of members and producers; frames |
| `processes/` | `stuntbroker serve` as a process, pytest on generated files, a container engine, fast-starting JVMs |
| `logs` | batches, and partition logs in a folder, without a broker |
| `message_samples` | random values of every message, generated from the schemas |
| `cases` | many small cases in one test |
| `control_rules` | one-line rules for faults and stops |
| `page_browser` | a browser without screen, scripts and styles, for the page of the control API |
"""
