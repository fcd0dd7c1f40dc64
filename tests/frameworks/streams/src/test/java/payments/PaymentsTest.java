package payments;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Produced;
import org.junit.jupiter.api.Test;

class PaymentsTest {
    static final String BOOTSTRAP = System.getenv("KAFKA_BOOTSTRAP");

    @Test
    void countsEveryOrderOfACustomerOnce() throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("orders")
            .groupByKey()
            .count()
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "counting");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, BOOTSTRAP);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);

        try (var producer = new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", BOOTSTRAP), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 300; number++) {
                producer.send(new ProducerRecord<>("orders", "customer-" + number % 3, "order " + number));
            }
        }
        Map<String, Long> counts = new TreeMap<>();
        try (var streams = new KafkaStreams(builder.build(), settings);
             var consumer = new KafkaConsumer<>(
                 Map.<String, Object>of("bootstrap.servers", BOOTSTRAP, "group.id", "check",
                     "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                 new StringDeserializer(), new LongDeserializer())) {
            streams.start();
            consumer.subscribe(List.of("counts"));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (counts.values().stream().mapToLong(Long::longValue).sum() < 300 && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(count -> counts.put(count.key(), count.value()));
            }
        }
        assertEquals(Map.of("customer-0", 100L, "customer-1", 100L, "customer-2", 100L), counts);
    }
}
