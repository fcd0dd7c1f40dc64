import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Runs every scenario against the broker at args[0]. One line of JSON for each: scenario, passed, trace. */
public final class Scenarios {
    private static final int TXN_TIMEOUT_MS = 1_500;

    private interface Scenario {
        void run(Peer peer, String own) throws Exception;
    }

    private interface Step {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("group_consumer", Scenarios::consumesInAGroupWhatItProduced);
        scenarios.put("committed", Scenarios::readsACommittedTransaction);
        scenarios.put("aborted", Scenarios::readsAnAbortedTransactionOnlyUncommitted);
        scenarios.put("exactly_once", Scenarios::transformsExactlyOnce);
        scenarios.put("zombie", Scenarios::zombieIsFenced);
        scenarios.put("timed_out_send", Scenarios::sendAfterATimeOutIsRefusedAndAbortRecovers);
        scenarios.put("timed_out_commit", Scenarios::commitAfterATimeOutIsFatal);
        Peer peer = new Peer(args[0]);
        String run = UUID.randomUUID().toString().substring(0, 8);
        scenarios.forEach((name, scenario) -> {
            String trace = traceOf(() -> scenario.run(peer, "java-" + name + "-" + run));
            System.out.printf(
                    "{\"scenario\": %s, \"passed\": %b, \"trace\": %s}%n", json(name), trace.isEmpty(), json(trace));
        });
        System.exit(0);
    }

    private static void consumesInAGroupWhatItProduced(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 2);
        peer.write(topic, 0, numbered("a", 50));
        peer.write(topic, 1, numbered("b", 50));

        List<String> values = peer.readInGroup(own, topic, 100);

        same(numbered("a", 50), values.stream().filter(value -> value.startsWith("a")).toList());
        same(numbered("b", 50), values.stream().filter(value -> value.startsWith("b")).toList());
    }

    private static void readsACommittedTransaction(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> producer = peer.transactionalProducer(own)) {
            commit(peer, producer, topic, "one", "two");
        }

        same(List.of("one", "two"), peer.read(topic, "read_committed", "two"));
    }

    private static void readsAnAbortedTransactionOnlyUncommitted(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> producer = peer.transactionalProducer(own)) {
            producer.beginTransaction();
            peer.send(producer, topic, 0, List.of("lost"));
            producer.abortTransaction();
            commit(peer, producer, topic, "kept");
        }

        same(List.of("kept"), peer.read(topic, "read_committed", "kept"));
        same(List.of("lost", "kept"), peer.read(topic, "read_uncommitted", "kept"));
    }

    /** KIP-98 and KIP-447: an aborted round leaves neither records nor offsets, so the next one starts again. */
    private static void transformsExactlyOnce(Peer peer, String own) throws Exception {
        String source = peer.createTopic(own + "-source", 2);
        String target = peer.createTopic(own + "-target", 1);
        peer.write(source, 0, numbered("a", 12));
        peer.write(source, 1, numbered("b", 8));

        peer.transform(own, source, target, 20, false);
        peer.transform(own, source, target, 20, true);

        peer.write(target, 0, List.of("end"));
        List<String> expected = new ArrayList<>(numbered("A", 12));
        expected.addAll(numbered("B", 8));
        expected.add("end");
        same(expected.stream().sorted().toList(),
                peer.read(target, "read_committed", "end").stream().sorted().toList());
        same(Map.of(0, 12L, 1, 8L), peer.committedOffsets(own + "-group", source));
    }

    private static void zombieIsFenced(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> zombie = peer.transactionalProducer(own)) {
            zombie.beginTransaction();
            peer.send(zombie, topic, 0, List.of("zombie"));
            try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
                raised(ProducerFencedException.class, zombie::commitTransaction);
                commit(peer, heir, topic, "heir");
            }
        }

        same(List.of("heir"), peer.read(topic, "read_committed", "heir"));
    }

    /** KIP-588 as far as it shipped, and KIP-890: the epoch is refused, the abort hands out the next one. */
    private static void sendAfterATimeOutIsRefusedAndAbortRecovers(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> slow = peer.transactionalProducer(own, TXN_TIMEOUT_MS)) {
            letTimeOut(peer, slow, topic);

            same(InvalidProducerEpochException.class, peer.failureOf(slow, topic, "too late").getClass());
            slow.abortTransaction();
            commit(peer, slow, topic, "next");
        }

        same(List.of("after", "next"), peer.read(topic, "read_committed", "next"));
    }

    private static void commitAfterATimeOutIsFatal(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> slow = peer.transactionalProducer(own, TXN_TIMEOUT_MS)) {
            letTimeOut(peer, slow, topic);

            KafkaException refused = raised(KafkaException.class, slow::commitTransaction);
            // Kafka says INVALID_TXN_STATE up to 4.4, PRODUCER_FENCED after KAFKA-20785.
            if (!(refused instanceof ProducerFencedException || refused instanceof InvalidTxnStateException)) {
                throw refused;
            }
            raised(KafkaException.class, slow::abortTransaction);
        }
        try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
            commit(peer, heir, topic, "next");
        }

        same(List.of("after", "next"), peer.read(topic, "read_committed", "next"));
    }

    /** A reader that gets past the open transaction has seen its abort. */
    private static void letTimeOut(Peer peer, KafkaProducer<String, String> slow, String topic) throws Exception {
        slow.beginTransaction();
        peer.send(slow, topic, 0, List.of("late"));
        peer.write(topic, 0, List.of("after"));
        same(List.of("after"), peer.read(topic, "read_committed", "after"));
    }

    private static void commit(Peer peer, KafkaProducer<String, String> producer, String topic, String... values)
            throws Exception {
        producer.beginTransaction();
        peer.send(producer, topic, 0, List.of(values));
        producer.commitTransaction();
    }

    private static List<String> numbered(String prefix, int count) {
        return IntStream.range(0, count).mapToObj(n -> prefix + n).toList();
    }

    private static void same(Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", not " + actual);
        }
    }

    private static <T extends Throwable> T raised(Class<T> type, Step step) throws Exception {
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
