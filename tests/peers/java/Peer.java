import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What an ordinary application does with Apache Kafka's Java client, default settings but for names and time-outs. */
final class Peer {
    static final Duration DEADLINE = Duration.ofSeconds(30);
    private static final Duration POLL = Duration.ofMillis(200);

    final String cluster;
    private final String bootstrap;

    Peer(String cluster, String bootstrap) {
        this.cluster = cluster;
        this.bootstrap = bootstrap;
    }

    private Admin admin() {
        return Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
    }

    String createTopic(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(Set.of(new NewTopic(topic, partitions, (short) 1))).all()
                    .get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
        }
        return topic;
    }

    KafkaProducer<String, String> plainProducer() {
        return new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
    }

    KafkaProducer<String, String> transactionalProducer(String transactionalId, int timeoutMs) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", transactionalId,
                "transaction.timeout.ms", timeoutMs);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    KafkaProducer<String, String> transactionalProducer(String transactionalId) {
        return transactionalProducer(transactionalId, 60_000);
    }

    /** Produces, and waits until everything is acknowledged. */
    void send(KafkaProducer<String, String> producer, String topic, int partition, List<String> values)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
        }
    }

    void write(String topic, int partition, List<String> values) throws Exception {
        try (KafkaProducer<String, String> producer = plainProducer()) {
            send(producer, topic, partition, values);
        }
    }

    /** One transaction with the same values in every partition. */
    void commit(KafkaProducer<String, String> producer, String topic, int partitions, String... values)
            throws Exception {
        producer.beginTransaction();
        for (int partition = 0; partition < partitions; partition++) {
            send(producer, topic, partition, List.of(values));
        }
        producer.commitTransaction();
    }

    /** The exception that the answer to one record carries. */
    Throwable failureOf(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        try {
            send(producer, topic, 0, List.of(value));
        } catch (ExecutionException failure) {
            return failure.getCause();
        }
        throw new AssertionError("the record " + value + " was taken");
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("bootstrap.servers", bootstrap);
        config.put("auto.offset.reset", "earliest");
        // close() waits for the fetch that is under way; half a second unless told.
        config.put("fetch.max.wait.ms", 50);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** What a reader of partition 0 sees from its beginning up to `last`. */
    List<String> read(String topic, String isolation, String last) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (!values.contains(last)) {
                checkTime(deadline, values);
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    /** What a reader of partition 0 sees from its beginning up to where it ends now. */
    List<String> readAll(String topic, String isolation) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                checkTime(deadline, values);
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    KafkaConsumer<String, String> groupConsumer(String group, String topic) {
        KafkaConsumer<String, String> consumer = consumer(Map.of(
                "group.id", group,
                "enable.auto.commit", "false",
                // How soon a member hears of a rebalance; three seconds unless told.
                "heartbeat.interval.ms", 200,
                "max.poll.records", 5,
                "isolation.level", "read_committed"));
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    /** Polls until so many records have come. */
    List<String> poll(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (values.size() < count) {
            checkTime(deadline, values);
            consumer.poll(POLL).forEach(record -> values.add(record.value()));
        }
        return values;
    }

    List<String> readInGroup(String group, String topic, int count) {
        try (KafkaConsumer<String, String> consumer = groupConsumer(group, topic)) {
            return poll(consumer, count);
        }
    }

    /** Upper-cases `count` records from one topic to the other, offsets and all, and commits or aborts. */
    void transform(String own, String source, String target, int count, boolean commit) {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        int done = 0;
        try (KafkaProducer<String, String> producer = transactionalProducer(own + "-transform");
                KafkaConsumer<String, String> consumer = groupConsumer(own + "-group", source)) {
            while (done < count) {
                checkTime(deadline, done);
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, 0, null, record.value().toUpperCase()));
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                done += records.count();
            }
        }
    }

    Map<Integer, Long> committedOffsets(String group, String topic) throws Exception {
        Map<Integer, Long> offsets = new HashMap<>();
        try (Admin admin = admin()) {
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()
                    .get(DEADLINE.toSeconds(), TimeUnit.SECONDS)
                    .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
        }
        return offsets;
    }

    /** Producer id and epoch of a transactional id, once its last transaction has ended, as id:epoch. */
    String identityOf(String transactionalId) throws Exception {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (Admin admin = admin()) {
            while (true) {
                TransactionDescription described =
                        admin.describeTransactions(Set.of(transactionalId)).description(transactionalId)
                                .get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
                // Kafka answers EndTxn before the markers are written.
                if (!described.state().toString().startsWith("Prepare")) {
                    return described.producerId() + ":" + described.producerEpoch();
                }
                checkTime(deadline, described);
            }
        }
    }

    /** The last stable offset of every partition is the end of its log: no transaction holds readers back. */
    void checkNothingIsOpen(String topic, int partitions) throws Exception {
        Scenarios.same(ends(topic, partitions, IsolationLevel.READ_UNCOMMITTED),
                ends(topic, partitions, IsolationLevel.READ_COMMITTED));
    }

    private List<Long> ends(String topic, int partitions, IsolationLevel isolation) throws Exception {
        List<Long> offsets = new ArrayList<>();
        try (Admin admin = admin()) {
            for (int n = 0; n < partitions; n++) {
                TopicPartition partition = new TopicPartition(topic, n);
                Map<TopicPartition, OffsetSpec> asked = Map.of(partition, OffsetSpec.latest());
                offsets.add(admin.listOffsets(asked, new ListOffsetsOptions(isolation)).partitionResult(partition)
                        .get(DEADLINE.toSeconds(), TimeUnit.SECONDS).offset());
            }
        }
        return offsets;
    }

    static void checkTime(long deadline, Object progress) {
        if (System.nanoTime() > deadline) {
            throw new AssertionError("nothing more after " + progress);
        }
    }
}
