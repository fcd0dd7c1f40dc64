import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/**
 * Runs every scenario against its clusters: each argument is name=host:port. One line of JSON for each: scenario,
 * which is the cluster's name and its own, passed, trace. Without arguments, what {@link Commands} does.
 */
public final class Scenarios {
    private static final int THREADS = 4;
    private static final int MINUTES_MAX = 3;
    private static final Set<String> ONE = Set.of("tv2");
    private static final Set<String> BOTH = Set.of("tv2", "tv1");
    /** Clusters whose names begin so fail by a plan: what must work all the same is tried there. */
    private static final String PLAN = "plan-";
    private static final Set<String> UNDER_PLANS = Set.of("committed", "aborted", "exactly_once");
    private static final Set<String> LATE = Set.of("late-tv2", "late-tv1");

    interface Scenario {
        void run(Peer peer, String own) throws Exception;
    }

    interface Step {
        void run() throws Exception;
    }

    private record Entry(Set<String> clusters, Scenario scenario) {}

    private static Map<String, Entry> scenarios() {
        Map<String, Entry> all = new LinkedHashMap<>();
        all.put("group_consumer", new Entry(ONE, EverydayScenarios::consumesInAGroupWhatItProduced));
        all.put("committed", new Entry(BOTH, EverydayScenarios::readsACommittedTransaction));
        all.put("aborted", new Entry(BOTH, EverydayScenarios::readsAnAbortedTransactionOnlyUncommitted));
        all.put("exactly_once", new Entry(BOTH, EverydayScenarios::transformsExactlyOnce));
        all.put("zombie_commit", new Entry(BOTH, FencingScenarios::zombieIsFencedAtItsCommit));
        all.put("zombie_record", new Entry(BOTH, FencingScenarios::zombieIsFencedAtItsNextRecord));
        all.put("takeover", new Entry(BOTH, FencingScenarios::takeoverShowsNoRecordOfTheZombie));
        all.put("rebalanced_out", new Entry(BOTH, FencingScenarios::offsetsOfAnOlderGenerationAreRefused));
        all.put("timed_out_send", new Entry(ONE, TimeOutScenarios::recordIsRefusedAndAbortRecovers));
        all.put("timed_out_abort", new Entry(ONE, TimeOutScenarios::abortRecovers));
        all.put("timed_out_commit", new Entry(ONE, TimeOutScenarios::commitIsFatal));
        all.put("timed_out_old", new Entry(Set.of("tv1"), TimeOutScenarios::everythingIsFatalUnderTheOldProtocol));
        all.put("late_commits", new Entry(Set.of("late-tv2"), EpochScenarios::oneProducerGoesPastTheLastEpoch));
        all.put("late_instances", new Entry(LATE, EpochScenarios::instancesGoPastTheLastEpoch));
        return all;
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            Commands.run();
        }
        Map<String, String> clusters = new LinkedHashMap<>();
        for (String argument : args) {
            String[] parts = argument.split("=", 2);
            clusters.put(parts[0], parts[1]);
        }
        String run = UUID.randomUUID().toString().substring(0, 8);
        // Most of a scenario is waiting.
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        scenarios().forEach((name, entry) -> clusters.forEach((cluster, bootstrap) -> {
            boolean isUnderPlan = cluster.startsWith(PLAN) && UNDER_PLANS.contains(name);
            if (isUnderPlan || entry.clusters().contains(cluster)) {
                Peer peer = new Peer(cluster, bootstrap);
                Step step = () -> entry.scenario().run(peer, "java-" + name + "-" + run);
                threads.execute(() -> report(cluster + " " + name, traceOf(step)));
            }
        }));
        threads.shutdown();
        if (!threads.awaitTermination(MINUTES_MAX, TimeUnit.MINUTES)) {
            System.out.println("some scenarios never end");
        }
        System.exit(0);
    }

    private static synchronized void report(String scenario, String trace) {
        System.out.printf("{\"scenario\": %s, \"passed\": %b, \"trace\": %s}%n",
                json(scenario), trace.isEmpty(), json(trace));
    }

    static List<String> numbered(String prefix, int count) {
        return IntStream.range(0, count).mapToObj(n -> prefix + n).toList();
    }

    static void same(Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", not " + actual);
        }
    }

    static <T extends Throwable> T raised(Class<T> type, Step step) throws Exception {
        try {
            step.run();
        } catch (Exception raised) {
            if (type.isInstance(raised)) {
                return type.cast(raised);
            }
            throw raised;
        }
        throw new AssertionError("expected a " + type.getSimpleName());
    }

    private static String traceOf(Step step) {
        try {
            step.run();
            return "";
        } catch (Throwable failure) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            return trace.toString();
        }
    }

    private static String json(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\t", "\\t")
                .replace("\r", "") + '"';
    }
}
