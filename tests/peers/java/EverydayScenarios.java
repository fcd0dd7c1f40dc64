import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;

/** What works when nothing goes wrong. */
final class EverydayScenarios {
    private EverydayScenarios() {}

    static void consumesInAGroupWhatItProduced(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 2);
        peer.write(topic, 0, Scenarios.numbered("a", 50));
        peer.write(topic, 1, Scenarios.numbered("b", 50));

        List<String> values = peer.readInGroup(own, topic, 100);

        Scenarios.same(Scenarios.numbered("a", 50), values.stream().filter(value -> value.startsWith("a")).toList());
        Scenarios.same(Scenarios.numbered("b", 50), values.stream().filter(value -> value.startsWith("b")).toList());
    }

    static void readsACommittedTransaction(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> producer = peer.transactionalProducer(own)) {
            peer.commit(producer, topic, 1, "one", "two");
        }

        Scenarios.same(List.of("one", "two"), peer.read(topic, "read_committed", "two"));
    }

    static void readsAnAbortedTransactionOnlyUncommitted(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> producer = peer.transactionalProducer(own)) {
            producer.beginTransaction();
            peer.send(producer, topic, 0, List.of("lost"));
            producer.abortTransaction();
            peer.commit(producer, topic, 1, "kept");
        }

        Scenarios.same(List.of("kept"), peer.read(topic, "read_committed", "kept"));
        Scenarios.same(List.of("lost", "kept"), peer.read(topic, "read_uncommitted", "kept"));
    }

    /** KIP-98 and KIP-447: an aborted round leaves neither records nor offsets, so the next one starts again. */
    static void transformsExactlyOnce(Peer peer, String own) throws Exception {
        String source = peer.createTopic(own + "-source", 2);
        String target = peer.createTopic(own + "-target", 1);
        peer.write(source, 0, Scenarios.numbered("a", 12));
        peer.write(source, 1, Scenarios.numbered("b", 8));

        peer.transform(own, source, target, 20, false);
        peer.transform(own, source, target, 20, true);

        peer.write(target, 0, List.of("end"));
        List<String> expected = new ArrayList<>(Scenarios.numbered("A", 12));
        expected.addAll(Scenarios.numbered("B", 8));
        expected.add("end");
        Scenarios.same(expected.stream().sorted().toList(),
                peer.read(target, "read_committed", "end").stream().sorted().toList());
        Scenarios.same(Map.of(0, 12L, 1, 8L), peer.committedOffsets(own + "-group", source));
    }
}
