"""Tests that only `make test-all` runs: they are slow, and faster tests prove the same rules.

LONG_TESTS maps a file, or a file and a test, to a regular expression for the parameters (in brackets after the test's name)
that `make test` still runs; None means that it runs none.
"""

from __future__ import annotations

import re
from typing import Final

LONG_TESTS: Final[dict[str, str | None]] = {
    # Every interleaving: the remaining tests cover each protocol under each transaction version.
    "coordinator/exploration/test_exploration.py::test_every_interleaving_keeps_the_promises":
        r"TV\d(, (last epoch|a late copy|two transactions|clients of TV1))?|2PC TV2|KIP-588 TV2|batches 2PC TV2|power TV2",
    # The scripted broker also sends each error at each call under transaction version 2.
    "client/producer/test_every_error.py::test_an_error_stops_the_process_only_if_it_is_fatal": "level 2, .*",
    "client/producer/test_every_error.py::test_a_commit_whose_response_was_lost_is_never_reported_as_failed": ".*-2",
    "client/producer/test_random_faults.py::test_readable_transactions_are_exactly_those_reported_as_committed": "0-2|50-1|75-2",
    "client/test_template_under_faults.py::test_a_failed_request_neither_loses_nor_duplicates_records": ".*-1",
    "client/test_template_under_faults.py::test_the_loop_goes_on_after_an_abortable_error_and_ends_after_a_fatal_one":
        "2-.*|1-Add.*",
    "client/test_template_under_faults.py::test_the_loop_does_not_notice_an_error_that_is_retried": "2-Produce.*",
    "client/test_template_under_faults.py::test_a_rebalance_during_a_transaction_neither_loses_nor_duplicates_records":
        None,
    "client/test_template_under_faults.py::test_fault_plans_neither_lose_nor_duplicate_records":
        "(?!slow-broker|transaction-times-out).*",
    "client/two_phase/test_two_phase.py::test_a_process_killed_at_any_step_leaves_database_and_topic_alike": ".*-(30|100)",
    # Random sequences that hardly involve transactions; `make conformance` runs any number of them.
    "conformance/test_random.py::test_random_sequences_get_the_replies_of_kafka": "transactions|groups",
    "conformance/test_random.py::test_random_sequences_over_whatever_expires_get_the_replies_of_kafka": None,
    # Each seed has about thirty crashes; these three under each durability find what the others do.
    "broker/durability/test_any_crash.py::test_acknowledged_data_survives_a_crash_at_any_disk_call": "[012]-.*",
    # Long requests are cut alike under both durabilities and in all versions.
    "broker/records/test_long_produce.py::test_a_long_produce_appends_to_and_answers_for_every_partition": "12-power",
    "broker/records/test_long_produce.py::test_a_long_transactional_produce_adds_all_its_partitions_to_the_transaction": "power",
    # Every bomb on topics that read little and on those that read everything; topics that read timestamps share their paths.
    "broker/records/test_bombs.py::test_no_produce_costs_more_than_its_read_budget":
        "plain-.*|compacted-(?![13]00,000 records).*|(narrow|stamped)-(100,000 records|records late by the header|a value.*)",
    # These requests have the same versions and rules under both transaction versions; the scripted broker sends each error too.
    "peers/client/test_every_error.py::test_the_application_writes_everything_once_and_restarts_only_after_a_fatal_error":
        r"level 2, .*|level 1, (?!FindCoordinator|InitProducerId).*",
    "pipeline/test_chaos.py::test_every_row_is_written_exactly_once": "1|3",
    "pipeline/test_on_kafka.py::test_columns_that_were_encoded_are_the_rows_that_are_read": "tv2",
    "pipeline/test_on_kafka.py::test_transactions_one_after_the_other": "tv2",
    "pipeline/report/test_findings_on_the_page.py::test_a_finding_has_a_row_and_a_section_with_the_batches_that_it_is_about":
        ".*-small",
    # Compares times, which the other tests disturb.
    "fixture/test_plugin.py::test_a_broker_per_test_costs_little_beside_one_that_is_started_as_a_process": None,
    # The compiler and the tests take six minutes; mypy checks the same modules, and the other tests run them as they are.
    "house/building/test_build.py::test_a_compiled_wheel_passes_the_tests_with_valid_and_hostile_clients": None,
    # pip builds and installs for half a minute; the same test runs in the environment of the tests, and wheels are compared.
    "docs/test_readme.py::test_the_first_test_in_a_new_environment": None,
    # Kills around a real Spark; tests/pipeline has the same kills around the writer that the sink uses.
    "spark/killing/test_faults.py": None,
    "spark/killing/test_faults_cluster.py": None,
    "spark/killing/test_faults_seeded.py": None,
    "spark/killing/test_faults_single.py": None,
    "spark/killing/test_faults_stages.py": None,
    # The audit on Spark with several processes, and on Kafka's data folder.
    "spark/auditing/test_audit_cluster.py::test_a_cluster_finds_the_same_and_all_its_workers_take_part": None,
    "spark/auditing/test_audit.py::test_the_audit_on_spark_gives_the_same_result_for_the_folder_of_a_broker": "ours",
    "spark/auditing/test_audit.py::test_the_audit_on_spark_gives_the_same_comparison_of_input_and_output": "ours",
    # tests/pipeline plants all of them for the audit without Spark.
    "spark/auditing/test_audit.py::test_the_audit_on_spark_gives_the_same_result_for_a_planted_fault":
        "overlap|lost_batch|a_flipped_bit_in_a_marker|killed_after_markers_that_were_sent_again",
    # Decision stores: one store of each mode remains.
    "spark/sink/test_sink_writes.py::test_a_version_whose_write_was_killed_at_any_step_is_written_once_when_repeated":
        "2pc-dir-(decided|half)",
    "spark/sink/test_sink_writes.py::test_a_version_that_was_committed_or_a_lower_one_is_not_written_again": "single-kafka",
    # Kills at other steps of a write.
    "spark/sink/test_sink.py::test_a_failed_commit_is_settled_by_the_abort": "commit-(decided|after)",
    "spark/sink/test_sink.py::test_tasks_that_fail_for_good_leave_nothing_open": "attempts0",
    "spark/sink/test_sink.py::test_transactions_left_open_are_settled_by_a_run_with_fewer_tasks": "commit-decided",
    # Starts a Spark of its own; a test in tests/spark runs the same block in a session that is there already.
    "docs/test_readme.py::test_spark": None,
    # Against Apache Kafka; the same tests against our broker remain.
    "spark/sink/test_sink_single.py::test_the_outcome_of_a_failed_commit_is_looked_up_at_the_restart_of_the_query": "ours-.*",
    "spark/sink/test_sink_single.py::test_a_task_that_fails_ends_the_query_and_its_batch_is_written_again": "ours",
    "spark/sink/test_sink_single.py::test_the_next_driver_ends_the_transaction_of_a_dead_driver": "ours",
    "spark/sink/test_sink_single.py::test_a_query_may_continue_in_the_other_mode": "ours",
    "spark/sink/test_sink_single.py::test_every_batch_of_mode_single_is_committed_once": "ours",
    "spark/sink/test_sink_single.py::test_jobs_are_written_once": ".*ours",
    "spark/sink/test_sink_single.py::test_two_tasks_must_not_write_to_one_partition": "ours",
    "spark/source/test_source_on_kafka.py": None,
}  # fmt: skip


def is_long(test: str) -> bool:
    """Whether a test, by its id below `tests/`, is left to `make test-all`."""
    name, _, parameters = test.partition("[")
    for key in (name, name.partition("::")[0]):
        if key in LONG_TESTS:
            stays = LONG_TESTS[key]
            return stays is None or not re.fullmatch(stays, parameters.removesuffix("]"))
    return False
