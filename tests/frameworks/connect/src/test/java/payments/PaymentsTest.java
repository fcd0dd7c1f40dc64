package payments;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.StringReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.junit.jupiter.api.Test;

class PaymentsTest {
    static final String BOOTSTRAP = System.getenv("KAFKA_BOOTSTRAP");

    @Test
    void everyLineOfAFileIsThereOnce() throws Exception {
        Path file = Files.createTempFile("orders", ".txt");
        List<String> lines = IntStream.range(0, 300).mapToObj(number -> "order " + number).collect(Collectors.toList());
        Files.write(file, lines);

        Properties properties = new Properties();
        properties.load(new StringReader(
            Files.readString(Path.of("worker.properties")).replace("${KAFKA_BOOTSTRAP}", BOOTSTRAP)));
        Map<String, String> settings = new HashMap<>();
        properties.forEach((name, value) -> settings.put((String) name, (String) value));
        var worker = new ConnectDistributed().startConnect(settings);
        String connector = """
            {"name": "orders", "config": {"connector.class": "FileStreamSource", "tasks.max": "1",
             "file": "%s", "topic": "orders", "exactly.once.support": "required"}}""".formatted(file);
        HttpResponse<String> made = HttpClient.newHttpClient().send(
            HttpRequest.newBuilder(URI.create(worker.rest().advertisedUrl() + "connectors"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(connector)).build(),
            HttpResponse.BodyHandlers.ofString());
        assertEquals(201, made.statusCode(), made.body());

        List<String> read = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(
                Map.<String, Object>of("bootstrap.servers", BOOTSTRAP, "group.id", "check", "metadata.max.age.ms", "500",
                    "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            long deadline = System.nanoTime() + Duration.ofSeconds(90).toNanos();
            while (read.size() < 300 && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(order -> read.add(order.value()));
            }
        }
        worker.stop();
        worker.awaitStop();
        assertEquals(lines, read);
    }
}
