"""franz-go's kgo: tests/peers/go, in one run for all tests of this module.

Needs a Go tool chain, and is skipped only where there is none. The program is built once for each text of its sources, which
takes half a minute of computing from an empty cache, modules and Go's own library included, and nothing from then on.
"""

import pytest

from tests.kit.brokers.clusters import Clusters
from tests.kit.programs.programs import go_program
from tests.kit.programs.scenarios import Outcomes, run_scenarios

# The first run fetches the modules and compiles.
pytestmark = pytest.mark.timeout(600)


# A client whose newest versions are those of Kafka 3.8 does the transactions of KIP-98, whatever the cluster.
OLD = "_old"
both = pytest.mark.parametrize("cluster", ["tv2", "tv1"])
both_late = pytest.mark.parametrize("cluster", ["late-tv2", "late-tv1"])
every_protocol = pytest.mark.parametrize(
    ("cluster", "versions"), [("tv2", ""), ("tv2", OLD), ("tv1", "")], ids=["tv2", "tv2-old-client", "tv1"]
)


@pytest.fixture(scope="module")
def franz_go(clusters: Clusters) -> Outcomes:
    return run_scenarios(go_program(), clusters.all())


def test_franz_go_consumes_in_a_group_what_it_produced(franz_go: Outcomes) -> None:
    franz_go.check("tv2", "group_consumer")


@both
def test_franz_go_reads_a_committed_transaction(franz_go: Outcomes, cluster: str) -> None:
    franz_go.check(cluster, "committed")


@both
def test_franz_go_reads_an_aborted_transaction_only_uncommitted(franz_go: Outcomes, cluster: str) -> None:
    franz_go.check(cluster, "aborted")


@every_protocol
def test_franz_go_transforms_exactly_once_with_the_offsets_in_the_transaction(
    franz_go: Outcomes, cluster: str, versions: str
) -> None:
    franz_go.check(cluster, f"exactly_once{versions}")


@every_protocol
def test_franz_go_zombie_is_fenced_at_its_commit_and_its_records_stay_invisible(
    franz_go: Outcomes, cluster: str, versions: str
) -> None:
    franz_go.check(cluster, f"zombie_commit{versions}")


@every_protocol
def test_franz_go_zombie_is_refused_its_next_record_and_fenced_when_it_tries_to_continue(
    franz_go: Outcomes, cluster: str, versions: str
) -> None:
    franz_go.check(cluster, f"zombie_record{versions}")


@every_protocol
def test_franz_go_takeover_of_an_open_transaction_shows_none_of_its_records(
    franz_go: Outcomes, cluster: str, versions: str
) -> None:
    franz_go.check(cluster, f"takeover{versions}")


@both
def test_franz_go_member_that_was_rebalanced_out_commits_nothing(franz_go: Outcomes, cluster: str) -> None:
    franz_go.check(cluster, "rebalanced_out")


def test_franz_go_continues_after_the_abort_of_a_transaction_that_has_timed_out(franz_go: Outcomes) -> None:
    """KIP-890: the response to the abort of a timed-out transaction has the epoch for the next one."""
    franz_go.check("tv2", "timed_out")


def test_franz_go_commit_is_fatal_when_the_transaction_has_timed_out(franz_go: Outcomes) -> None:
    franz_go.check("tv2", "timed_out_commit")


def test_franz_go_of_old_versions_asks_for_its_next_epoch_when_the_transaction_has_timed_out(
    franz_go: Outcomes,
) -> None:
    """KIP-588 as far as it shipped: InitProducerId with the epoch that timed out."""
    franz_go.check("tv2", "timed_out_old")


def test_franz_go_is_fenced_when_its_transaction_has_timed_out_under_the_old_protocol(franz_go: Outcomes) -> None:
    franz_go.check("tv1", "timed_out_tv1")


def test_franz_go_producer_goes_past_the_last_epoch_without_a_gap(franz_go: Outcomes) -> None:
    franz_go.check("late-tv2", "late_commits")


@both_late
def test_franz_go_takeovers_past_the_last_epoch_show_no_record_of_a_zombie(franz_go: Outcomes, cluster: str) -> None:
    franz_go.check(cluster, "late_instances")


def test_franz_go_time_out_below_the_last_epoch_is_an_unknown_error_and_a_new_instance_continues(
    franz_go: Outcomes,
) -> None:
    franz_go.check("late-tv2", "late_timed_out")


def test_franz_go_continues_after_a_time_out_of_the_last_epoch(franz_go: Outcomes) -> None:
    franz_go.check("late-tv2", "late_timed_out_last")
