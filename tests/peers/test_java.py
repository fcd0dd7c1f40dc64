"""Apache Kafka's own Java client: tests/peers/java/Scenarios.java, in one run for all tests here."""

import pytest

from tests.kit.brokers.clusters import Clusters
from tests.kit.programs.programs import java_program
from tests.kit.programs.scenarios import Outcomes, run_scenarios

# The first run fetches the jars and compiles.
pytestmark = pytest.mark.timeout(600)

both = pytest.mark.parametrize("cluster", ["tv2", "tv1"])
both_late = pytest.mark.parametrize("cluster", ["late-tv2", "late-tv1"])


@pytest.fixture(scope="module")
def java(clusters: Clusters) -> Outcomes:
    return run_scenarios(java_program(), clusters.all())


def test_java_consumes_in_a_group_what_it_produced(java: Outcomes) -> None:
    java.check("tv2", "group_consumer")


@both
def test_java_reads_a_committed_transaction(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "committed")


@both
def test_java_reads_an_aborted_transaction_only_uncommitted(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "aborted")


@both
def test_java_transforms_exactly_once_with_the_offsets_in_the_transaction(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "exactly_once")


@both
def test_java_zombie_is_fenced_at_its_commit_and_its_records_stay_invisible(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "zombie_commit")


@both
def test_java_zombie_is_refused_its_next_record_and_fenced_at_the_abort(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "zombie_record")


@both
def test_java_takeover_of_an_open_transaction_shows_none_of_its_records(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "takeover")


@both
def test_java_offsets_of_a_member_that_was_rebalanced_out_are_refused(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "rebalanced_out")


def test_java_send_is_refused_when_the_transaction_has_timed_out_and_abort_recovers(java: Outcomes) -> None:
    """KIP-890: the response to the abort of a timed-out transaction has the epoch for the next one."""
    java.check("tv2", "timed_out_send")


def test_java_abort_recovers_when_the_transaction_has_timed_out(java: Outcomes) -> None:
    java.check("tv2", "timed_out_abort")


def test_java_commit_is_fatal_when_the_transaction_has_timed_out(java: Outcomes) -> None:
    java.check("tv2", "timed_out_commit")


def test_java_is_fenced_for_good_when_its_transaction_has_timed_out_under_the_old_protocol(java: Outcomes) -> None:
    java.check("tv1", "timed_out_old")


def test_java_producer_goes_past_the_last_epoch_without_a_gap(java: Outcomes) -> None:
    java.check("late-tv2", "late_commits")


@both_late
def test_java_takeovers_past_the_last_epoch_show_no_record_of_a_zombie(java: Outcomes, cluster: str) -> None:
    java.check(cluster, "late_instances")
