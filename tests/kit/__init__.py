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
| `processes/` | `stuntbroker serve`, pytest, PostgreSQL, a container engine and fast-starting JVMs as processes; free ports |
| `brokers/` | the broker under test or Apache Kafka as a process, clusters of them, and what their logs must contain |
| `programs/` | programs of other languages and Kafka's own commands, run against a broker; the scenarios that they play |
| `keystore_files`, `scram_client` | keys and certificates, and the client's half of SCRAM |
| `stopping` | ends of the broker in the middle of a step |
| `logs` | batches, and partition logs in a folder, without a broker |
| `message_samples` | random values of every message, generated from the schemas |
| `cases` | many small cases in one test |
| `control_rules` | one-line rules for faults and stops |
| `page_browser` | a browser without screen, scripts and styles, for the page of the control API |
"""
