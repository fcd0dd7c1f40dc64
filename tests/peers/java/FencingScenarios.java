import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Two instances with one transactional id, or two members of one group, of which the older one does not know. */
final class FencingScenarios {
    private static final int PARTITIONS = 3;

    private FencingScenarios() {}

    static void zombieIsFencedAtItsCommit(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> zombie = peer.transactionalProducer(own)) {
            zombie.beginTransaction();
            peer.send(zombie, topic, 0, List.of("zombie"));
            try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
                Scenarios.raised(ProducerFencedException.class, zombie::commitTransaction);
                Scenarios.raised(ProducerFencedException.class, zombie::beginTransaction);
                peer.commit(heir, topic, 1, "heir");
            }
        }

        Scenarios.same(List.of("heir"), peer.read(topic, "read_committed", "heir"));
        peer.checkNothingIsOpen(topic, 1);
    }

    /** The record's own error may be aborted, as after a time-out: it is the abort that tells of the fence. */
    static void zombieIsFencedAtItsNextRecord(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, 1);
        try (KafkaProducer<String, String> zombie = peer.transactionalProducer(own)) {
            zombie.beginTransaction();
            peer.send(zombie, topic, 0, List.of("zombie"));
            try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
                Scenarios.same(
                        InvalidProducerEpochException.class, peer.failureOf(zombie, topic, "zombie").getClass());
                Scenarios.raised(ProducerFencedException.class, zombie::abortTransaction);
                peer.commit(heir, topic, 1, "heir");
            }
        }

        Scenarios.same(List.of("heir"), peer.read(topic, "read_committed", "heir"));
        peer.checkNothingIsOpen(topic, 1);
    }

    static void takeoverShowsNoRecordOfTheZombie(Peer peer, String own) throws Exception {
        String topic = peer.createTopic(own, PARTITIONS);
        Map<Integer, List<String>> expected = new TreeMap<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            expected.put(partition, List.of("before", "heir", "after"));
        }
        try (Watch watch = new Watch(peer, topic, PARTITIONS);
                KafkaProducer<String, String> before = peer.transactionalProducer(own + "-before");
                KafkaProducer<String, String> zombie = peer.transactionalProducer(own)) {
            peer.commit(before, topic, PARTITIONS, "before");
            watch.waitFor("before");
            zombie.beginTransaction();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                peer.send(zombie, topic, partition, List.of("zombie 1", "zombie 2"));
            }
            try (KafkaProducer<String, String> heir = peer.transactionalProducer(own)) {
                peer.commit(heir, topic, PARTITIONS, "heir");
                Scenarios.raised(ProducerFencedException.class, zombie::commitTransaction);
                peer.commit(heir, topic, PARTITIONS, "after");
            }
            Scenarios.same(expected, watch.waitFor("after"));
        }

        peer.checkNothingIsOpen(topic, PARTITIONS);
    }

    /** KIP-447: the group's generation fences, whatever the transactional id. */
    static void offsetsOfAnOlderGenerationAreRefused(Peer peer, String own) throws Exception {
        String source = peer.createTopic(own + "-source", 2);
        String target = peer.createTopic(own + "-target", 1);
        peer.write(source, 0, Scenarios.numbered("a", 4));
        peer.write(source, 1, Scenarios.numbered("b", 4));
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(
                new TopicPartition(source, 0), new OffsetAndMetadata(4),
                new TopicPartition(source, 1), new OffsetAndMetadata(4));
        try (KafkaProducer<String, String> producer = peer.transactionalProducer(own + "-zombie");
                KafkaConsumer<String, String> zombie = peer.groupConsumer(own + "-group", source);
                KafkaConsumer<String, String> heir = peer.groupConsumer(own + "-group", source)) {
            peer.poll(zombie, 8);
            ConsumerGroupMetadata firstGeneration = zombie.groupMetadata();
            long deadline = System.nanoTime() + Peer.DEADLINE.toNanos();
            while (heir.assignment().size() != 1 || zombie.assignment().size() != 1) {
                Peer.checkTime(deadline, heir.assignment());
                heir.poll(Duration.ofMillis(100));
                zombie.poll(Duration.ofMillis(100));
            }
            ConsumerGroupMetadata secondGeneration = zombie.groupMetadata();

            refuseOffsets(peer, producer, target, offsets, firstGeneration);
            zombie.unsubscribe();
            refuseOffsets(peer, producer, target, offsets, secondGeneration);
            Scenarios.same(Map.of(), peer.committedOffsets(own + "-group", source));
        }
        peer.transform(own, source, target, 8, true);

        Scenarios.same(Set.of("A0", "A1", "A2", "A3", "B0", "B1", "B2", "B3"),
                Set.copyOf(peer.readAll(target, "read_committed")));
        Scenarios.same(8, peer.readAll(target, "read_committed").size());
        Scenarios.same(Map.of(0, 4L, 1, 4L), peer.committedOffsets(own + "-group", source));
    }

    private static void refuseOffsets(
            Peer peer,
            KafkaProducer<String, String> producer,
            String target,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            ConsumerGroupMetadata metadata)
            throws Exception {
        producer.beginTransaction();
        peer.send(producer, target, 0, List.of("zombie"));
        Scenarios.raised(
                CommitFailedException.class, () -> producer.sendOffsetsToTransaction(offsets, metadata));
        producer.abortTransaction();
    }
}
