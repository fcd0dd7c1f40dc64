import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers that do what the lines of the standard input say: number, producer, verb and arguments, with
 * tabs between. Each is answered with its number and "ok" and values, or "error" and what was raised. A producer does one
 * thing after the other, and producers do not wait for each other.
 */
final class Commands {
    private static final Duration CLOSE = Duration.ofSeconds(1);
    private static final Duration POLL = Duration.ofMillis(100);
    private final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    static void run() throws Exception {
        Commands commands = new Commands();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            commands.threads
                    .computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> commands.answer(words));
        }
        System.exit(0);
    }

    private void answer(String[] words) {
        List<String> said = new ArrayList<>(List.of(words[0]));
        try {
            List<String> values = carryOut(words);
            said.add("ok");
            said.addAll(values);
        } catch (Throwable raised) {
            Throwable cause = raised instanceof ExecutionException ? raised.getCause() : raised;
            said.add("error");
            said.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        String line = String.join("\t", said).replace("\n", " ");
        synchronized (System.out) {
            System.out.println(line);
        }
    }

    private List<String> carryOut(String[] words) throws Exception {
        String name = words[1];
        KafkaProducer<String, String> producer = producers.get(name);
        switch (words[2]) {
            case "open" -> producers.put(name, open(name, words[3], words[4], words[5]));
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[3], Integer.valueOf(words[4]), null, words[5]))
                    .get(Peer.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "read" -> {
                return read(words[3], words[4], Integer.parseInt(words[5]));
            }
            case "follow" -> {
                return follow(name, words[3], words[4], Integer.parseInt(words[5]));
            }
            case "relay" -> relay(name, words[3], words[4], open(name, words[3], words[5], words[6]));
            case "close" -> producers.remove(name).close(CLOSE);
            default -> throw new IllegalArgumentException("there is no verb " + words[2]);
        }
        return List.of();
    }

    private static KafkaProducer<String, String> open(String name, String bootstrap, String id, String timeoutMs) {
        Map<String, Object> config = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap,
                "client.id", name,
                "transactional.id", id,
                "transaction.timeout.ms", timeoutMs,
                // How long a lost answer takes; half a minute unless told.
                "request.timeout.ms", 1_000,
                // How long it waits for an answer that it could not read; a minute unless told.
                "max.block.ms", 10_000,
                "retry.backoff.ms", 20,
                "reconnect.backoff.ms", 20));
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static List<String> read(String bootstrap, String topic, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("bootstrap.servers", bootstrap))) {
            consumer.assign(consumer.partitionsFor(topic).stream()
                    .map(each -> new TopicPartition(each.topic(), each.partition())).toList());
            return poll(consumer, count);
        }
    }

    /** Reads as a member of a group whose heartbeats are quick. */
    private static List<String> follow(String group, String bootstrap, String topic, int count) {
        Map<String, Object> config =
                Map.of("bootstrap.servers", bootstrap, "group.id", group, "heartbeat.interval.ms", 100);
        try (KafkaConsumer<String, String> consumer = consumer(config)) {
            consumer.subscribe(List.of(topic));
            return poll(consumer, count);
        }
    }

    /** Reads a record as a member of a group, and commits its offset in a transaction. */
    private static void relay(String group, String bootstrap, String topic, KafkaProducer<String, String> producer) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "max.poll.records", 1, "enable.auto.commit", false);
        try (producer; KafkaConsumer<String, String> consumer = consumer(config)) {
            consumer.subscribe(List.of(topic));
            poll(consumer, 1);
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            consumer.assignment().forEach(each -> offsets.put(each, new OffsetAndMetadata(consumer.position(each))));
            try {
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
            } catch (RuntimeException refused) {
                producer.abortTransaction();
                throw refused;
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(Map<String, Object> given) {
        Map<String, Object> config = new HashMap<>(given);
        config.putAll(Map.of(
                "auto.offset.reset", "earliest", "isolation.level", "read_committed", "fetch.max.wait.ms", 50));
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> poll(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + Peer.DEADLINE.toNanos();
        while (values.size() < count) {
            Peer.checkTime(deadline, values);
            consumer.poll(POLL).forEach(record -> values.add(record.value()));
        }
        return values;
    }
}
