import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.testcontainers.containers.Container;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.output.OutputFrame;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.redpanda.RedpandaContainer;
import org.testcontainers.utility.DockerImageName;

/** Runs each Kafka module of Testcontainers for Java, unmodified, with the image in IMAGE; one line per module. */
public class Matrix {
    static final String IMAGE = System.getenv("IMAGE");
    static final String RUN = System.getenv().getOrDefault("RUN", "manual");
    static final int TIMEOUT = Integer.parseInt(System.getenv().getOrDefault("MODULE_TIMEOUT", "60"));
    static final Path LOGS = Path.of(System.getenv().getOrDefault("LOGS", "logs"));
    static final String TC = System.getenv().getOrDefault("TC", "java");

    /** What a module needs: how its container is made, and how it gives its bootstrap address once started. */
    record Module<C extends GenericContainer<C>>(Supplier<C> make, Function<C, String> bootstrap) {
        String run(String name, long[] started) throws Exception {
            Files.createDirectories(LOGS);
            OutputStream log = Files.newOutputStream(LOGS.resolve(TC + "-" + name.replaceAll("[^A-Za-z0-9.]+", "_") + ".log"));
            Consumer<OutputFrame> toFile = frame -> {
                try { if (frame.getBytes() != null) log.write(frame.getBytes()); } catch (IOException closed) { }
            };
            try (log; C container = make.get().withLabel("tc-matrix", RUN).withLogConsumer(toFile).withStartupTimeout(Duration.ofSeconds(TIMEOUT - 5))) {
                container.start();
                started[0] = System.nanoTime();
                return transact(bootstrap.apply(container));
            }
        }
    }

    static DockerImageName like(String other) { return DockerImageName.parse(IMAGE).asCompatibleSubstituteFor(other); }

    /** Created when a container needs it; Network.SHARED would stay until Ryuk, which does not run here, removes it. */
    static final Network NETWORK = Network.newNetwork();

    @SuppressWarnings({"deprecation", "resource"})
    static Map<String, Module<?>> modules() {
        Map<String, Module<?>> all = new LinkedHashMap<>();
        all.put("kafka.KafkaContainer(apache/kafka)",
            new Module<KafkaContainer>(() -> new KafkaContainer(like("apache/kafka")), KafkaContainer::getBootstrapServers));
        all.put("kafka.KafkaContainer(apache/kafka-native)",
            new Module<KafkaContainer>(() -> new KafkaContainer(like("apache/kafka-native")), KafkaContainer::getBootstrapServers));
        all.put("kafka.KafkaContainer+withListener",
            new Module<KafkaContainer>(() -> new KafkaContainer(like("apache/kafka")).withNetwork(NETWORK).withListener("broker:19092"),
                KafkaContainer::getBootstrapServers));
        all.put("kafka.ConfluentKafkaContainer",
            new Module<ConfluentKafkaContainer>(() -> new ConfluentKafkaContainer(like("confluentinc/cp-kafka")), ConfluentKafkaContainer::getBootstrapServers));
        all.put("containers.KafkaContainer(zookeeper)",
            new Module<org.testcontainers.containers.KafkaContainer>(() -> new org.testcontainers.containers.KafkaContainer(like("confluentinc/cp-kafka")),
                org.testcontainers.containers.KafkaContainer::getBootstrapServers));
        all.put("containers.KafkaContainer.withKraft",
            new Module<org.testcontainers.containers.KafkaContainer>(() -> new org.testcontainers.containers.KafkaContainer(like("confluentinc/cp-kafka")).withKraft(),
                org.testcontainers.containers.KafkaContainer::getBootstrapServers));
        all.put("redpanda.RedpandaContainer",
            new Module<RedpandaContainer>(() -> new RedpandaContainer(like("redpandadata/redpanda")), RedpandaContainer::getBootstrapServers));
        all.put("redpanda.RedpandaContainer+withListener",
            new Module<RedpandaContainer>(() -> new RedpandaContainer(like("redpandadata/redpanda")).withNetwork(NETWORK).withListener("rp:19092"),
                RedpandaContainer::getBootstrapServers));
        all.put("generic", new Module<Plain>(Plain::new, Plain::getBootstrapServers));
        return all;
    }

    static class Plain extends GenericContainer<Plain> {
        Plain() { super(DockerImageName.parse(IMAGE)); withExposedPorts(9092); }

        String getBootstrapServers() {
            String address = getHost() + ":" + getMappedPort(9092);
            // The container is told by which address its clients come: a random port cannot be known before.
            if (!"0".equals(System.getenv("ADVERTISE"))) {
                try {
                    Container.ExecResult told = execInContainer("stuntbroker", "advertise", address);
                    if (told.getExitCode() != 0) System.err.println("note: stuntbroker advertise: exit " + told.getExitCode() + ": " + last(told.getStderr() + told.getStdout()));
                } catch (Exception fault) { System.err.println("note: stuntbroker advertise: " + fault); }
            }
            return address;
        }
    }

    /** Commits one transaction (after one that is aborted) and reads it back with read_committed. */
    static String transact(String bootstrap) throws Exception {
        String topic = "tc-" + UUID.randomUUID();
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", 10000, "default.api.timeout.ms", 15000);
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get(15, TimeUnit.SECONDS);
        }
        Map<String, Object> produce = new HashMap<>(common);
        produce.putAll(Map.of("transactional.id", "tx-" + topic, "max.block.ms", 15000, "delivery.timeout.ms", 15000));
        try (Producer<String, String> producer = new KafkaProducer<>(produce, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "aborted")).get(15, TimeUnit.SECONDS);
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "committed"));
            producer.commitTransaction();
        }
        Map<String, Object> consume = new HashMap<>(common);
        consume.putAll(Map.of("isolation.level", "read_committed", "auto.offset.reset", "earliest", "group.id", "g-" + topic));
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consume, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long end = System.nanoTime() + 15_000_000_000L;
            while (values.isEmpty() && System.nanoTime() < end)
                consumer.poll(Duration.ofMillis(500)).forEach(record -> values.add(record.value()));
        }
        return values.equals(List.of("committed")) ? null : "read " + values + " instead of [committed]";
    }

    static String last(String text) { String[] lines = text.strip().split("\n"); return lines[lines.length - 1]; }

    static String reason(Throwable fault) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = fault; one != null; one = one.getCause())
            text.append(text.length() > 0 ? " <- " : "").append(one.getClass().getSimpleName()).append(": ").append(one.getMessage());
        return text.toString().replaceAll("\\s+", " ");
    }

    public static void main(String[] only) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool(task -> { Thread t = new Thread(task); t.setDaemon(true); return t; });
        int failed = 0;
        for (Map.Entry<String, Module<?>> entry : modules().entrySet()) {
            String name = entry.getKey();
            if (only.length > 0 && Arrays.stream(only).noneMatch(name::contains)) continue;
            long begin = System.nanoTime();
            long[] started = {0};
            Future<String> result = threads.submit(() -> entry.getValue().run(name, started));
            String fault;
            try { fault = result.get(TIMEOUT, TimeUnit.SECONDS); }
            catch (TimeoutException slow) { fault = "not done after " + TIMEOUT + " s"; result.cancel(true); }
            catch (ExecutionException wrapped) { fault = reason(wrapped.getCause()); }
            double seconds = (System.nanoTime() - begin) / 1e9;
            String up = started[0] == 0 ? "" : String.format(", up after %.1f s", (started[0] - begin) / 1e9);
            String line = fault == null ? "PASS " + TC + " " + name : "FAIL " + TC + " " + name + ": " + fault.substring(0, Math.min(600, fault.length()));
            System.out.printf("%s (%.1f s%s)%n", line, seconds, up);
            System.out.flush();
            if (fault != null) failed++;
        }
        NETWORK.close();
        Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
    }
}
