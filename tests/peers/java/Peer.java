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
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What an ordinary application does with Apache Kafka's Java client, default settings but for names and time-outs. */
final class Peer {
    static final Duration DEADLINE = Duration.ofSeconds(30);
    private static final Duration POLL = Duration.ofMillis(200);

    private final String bootstrap;

    Peer(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    String createTopic(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
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

    /** The exception that the answer to one record carries. */
    Throwable failureOf(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        try {
            send(producer, topic, 0, List.of(value));
        } catch (ExecutionException failure) {
            return failure.getCause();
        }
        throw new AssertionError("the record " + value + " was taken");
    }

    /** What a reader of partition 0 sees from its beginning up to `last`. */
    List<String> read(String topic, String isolation, String last) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (!values.contains(last)) {
                checkTime(deadline, values);
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    KafkaConsumer<String, String> groupConsumer(String group, String topic) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "max.poll.records", 5,
                "isolation.level", "read_committed");
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    List<String> readInGroup(String group, String topic, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<String, String> consumer = groupConsumer(group, topic)) {
            while (values.size() < count) {
                checkTime(deadline, values);
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
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
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()
                    .get(DEADLINE.toSeconds(), TimeUnit.SECONDS)
                    .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
        }
        return offsets;
    }

    private static void checkTime(long deadline, Object progress) {
        if (System.nanoTime() > deadline) {
            throw new AssertionError("nothing more after " + progress);
        }
    }
}
