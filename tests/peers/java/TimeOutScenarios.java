import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * KIP-588 as far as it shipped, and KIP-890: no error tells of a time-out, the epoch is refused. The abort hands out
 * the epoch to go on with, under transaction.version 2.
 */
final class TimeOutScenarios {
    private static final int TXN_TIMEOUT_MS = 4_000;

    private TimeOutScenarios() {}

    static void recordIsRefusedAndAbortRecovers(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> slow = peer.transactionalProducer(own, TXN_TIMEOUT_MS)) {
            begin(peer, slow, topic);
            waitForTheTimeOut(peer, topic);

            Scenarios.same(InvalidProducerEpochException.class, peer.failureOf(slow, topic, "too late").getClass());
            Scenarios.raised(KafkaException.class, slow::commitTransaction);
            slow.abortTransaction();
            peer.commit(slow, topic, 1, "next");
        }

        Scenarios.same(List.of("after", "next"), peer.read(topic, "read_committed", "next"));
        peer.checkNothingIsOpen(topic, 1);
    }

    static void abortRecovers(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> slow = peer.transactionalProducer(own, TXN_TIMEOUT_MS)) {
            begin(peer, slow, topic);
            waitForTheTimeOut(peer, topic);

            slow.abortTransaction();
            peer.commit(slow, topic, 1, "next");
        }

        Scenarios.same(List.of("after", "next"), peer.read(topic, "read_committed", "next"));
        peer.checkNothingIsOpen(topic, 1);
    }

    static void commitIsFatal(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> slow = peer.transactionalProducer(own, TXN_TIMEOUT_MS)) {
            begin(peer, slow, topic);
            waitForTheTimeOut(peer, topic);

            KafkaException refused = Scenarios.raised(KafkaException.class, slow::commitTransaction);
            // Kafka says INVALID_TXN_STATE up to 4.4, PRODUCER_FENCED after KAFKA-20785.
            if (!(refused instanceof ProducerFencedException || refused instanceof InvalidTxnStateException)) {
                throw refused;
            }
            Scenarios.raised(KafkaException.class, slow::abortTransaction);
        }
        try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
            peer.commit(heir, topic, 1, "next");
        }

        Scenarios.same(List.of("after", "next"), peer.read(topic, "read_committed", "next"));
        peer.checkNothingIsOpen(topic, 1);
    }

    static void everythingIsFatalUnderTheOldProtocol(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> sends = peer.transactionalProducer(own + "-sends", TXN_TIMEOUT_MS);
                KafkaProducer<String, String> aborts = peer.transactionalProducer(own + "-aborts", TXN_TIMEOUT_MS);
                KafkaProducer<String, String> commits = peer.transactionalProducer(own + "-commits", TXN_TIMEOUT_MS)) {
            for (KafkaProducer<String, String> slow : List.of(sends, aborts, commits)) {
                begin(peer, slow, topic);
            }
            waitForTheTimeOut(peer, topic);

            Scenarios.same(InvalidProducerEpochException.class, peer.failureOf(sends, topic, "too late").getClass());
            Scenarios.raised(ProducerFencedException.class, sends::abortTransaction);
            Scenarios.raised(ProducerFencedException.class, aborts::abortTransaction);
            Scenarios.raised(ProducerFencedException.class, commits::commitTransaction);
            for (KafkaProducer<String, String> slow : List.of(sends, aborts, commits)) {
                Scenarios.raised(ProducerFencedException.class, slow::beginTransaction);
            }
        }
        for (String step : List.of("sends", "aborts", "commits")) {
            try (KafkaProducer<String, String> heir = peer.transactionalProducer(own + "-" + step)) {
                peer.commit(heir, topic, 1, step);
            }
        }

        Scenarios.same(List.of("after", "sends", "aborts", "commits"), peer.read(topic, "read_committed", "commits"));
        peer.checkNothingIsOpen(topic, 1);
    }

    private static void begin(Peer peer, KafkaProducer<String, String> slow, String topic) throws Exception {
        slow.beginTransaction();
        peer.send(slow, topic, 0, List.of("late"));
    }

    /** A reader that gets past the open transactions has seen their abort. */
    private static void waitForTheTimeOut(Peer peer, String topic) throws Exception {
        peer.write(topic, 0, List.of("after"));
        Scenarios.same(List.of("after"), peer.read(topic, "read_committed", "after"));
    }
}
