import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;

/** Transactional ids whose first epoch is 32764, two below the last one that a producer ever holds. */
final class EpochScenarios {
    private EpochScenarios() {}

    /** KIP-890: every transaction takes an epoch, and its end hands out the new producer id. */
    static void oneProducerGoesPastTheLastEpoch(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 2);
        List<String> identities = new ArrayList<>();
        List<String> kept = new ArrayList<>();
        try (KafkaProducer<String, String> producer = peer.transactionalProducer("late-java")) {
            identities.add(peer.identityOf("late-java"));
            for (int n = 0; n < 10; n++) {
                if (n % 3 == 1) {
                    producer.beginTransaction();
                    peer.send(producer, topic, 0, List.of("lost " + n));
                    peer.send(producer, topic, 1, List.of("lost " + n));
                    producer.abortTransaction();
                } else {
                    peer.commit(producer, topic, 2, "kept " + n);
                    kept.add("kept " + n);
                }
                identities.add(peer.identityOf("late-java"));
            }
        }

        checkIdentities(identities, List.of(32_764, 32_765, 32_766), List.of(0, 1, 2, 3, 4, 5, 6, 7));
        Scenarios.same(kept, peer.read(topic, "read_committed", "kept 9"));
        peer.checkNothingIsOpen(topic, 2);
    }

    /**
     * Every instance commits, leaves a transaction open, and is taken over. Under transaction.version 1 a takeover
     * takes two epochs: one to fence, one to begin. Under 2 the commit takes a third.
     */
    static void instancesGoPastTheLastEpoch(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        List<String> identities = new ArrayList<>();
        List<String> kept = new ArrayList<>();
        List<KafkaProducer<String, String>> producers = new ArrayList<>();
        try {
            for (int n = 0; n < 5; n++) {
                KafkaProducer<String, String> producer = peer.transactionalProducer("late-java-instances");
                producers.add(producer);
                identities.add(peer.identityOf("late-java-instances"));
                peer.commit(producer, topic, 1, "kept " + n);
                kept.add("kept " + n);
                producer.beginTransaction();
                peer.send(producer, topic, 0, List.of("lost " + n));
            }
            for (KafkaProducer<String, String> zombie : producers.subList(0, 4)) {
                Scenarios.raised(KafkaException.class, zombie::commitTransaction);
            }
            producers.get(4).abortTransaction();
        } finally {
            producers.forEach(KafkaProducer::close);
        }

        if (peer.cluster.endsWith("tv2")) {
            checkIdentities(identities, List.of(32_764), List.of(0, 3, 6, 9));
        } else {
            checkIdentities(identities, List.of(32_764, 32_766), List.of(0, 2, 4));
        }
        Scenarios.same(kept, peer.read(topic, "read_committed", "kept 4"));
        peer.checkNothingIsOpen(topic, 1);
    }

    /** One producer id with the epochs `before`, and then a new one with the epochs `after`. */
    private static void checkIdentities(List<String> seen, List<Integer> before, List<Integer> after) {
        String old = seen.get(0).split(":")[0];
        String taken = seen.get(seen.size() - 1).split(":")[0];
        List<String> expected = new ArrayList<>();
        before.forEach(epoch -> expected.add(old + ":" + epoch));
        after.forEach(epoch -> expected.add(taken + ":" + epoch));
        Scenarios.same(expected, seen);
        if (old.equals(taken)) {
            throw new AssertionError("the producer id stayed the same");
        }
    }
}
