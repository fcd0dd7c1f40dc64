package payments;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

class PaymentsTest {
    static final String BOOTSTRAP = System.getenv("KAFKA_BOOTSTRAP");

    @Test
    void paysEveryOrderOnce() throws Exception {
        try (var producer = new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", BOOTSTRAP), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 300; number++) {
                producer.send(new ProducerRecord<>("orders", "" + number));
            }
        }
        var source = KafkaSource.<String>builder()
            .setBootstrapServers(BOOTSTRAP)
            .setTopics("orders")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(BOOTSTRAP)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("payments")
            .setProperty("transaction.timeout.ms", "600000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic("payments")
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        var environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(2);
        environment.enableCheckpointing(200);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
            .map(order -> "paid " + order)
            .sinkTo(sink);
        environment.execute();

        var paid = new TreeSet<String>();
        int count = 0;
        try (var consumer = new KafkaConsumer<>(
                Map.<String, Object>of("bootstrap.servers", BOOTSTRAP, "group.id", "check",
                    "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("payments"));
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (count < 300 && System.nanoTime() < deadline) {
                for (var payment : consumer.poll(Duration.ofMillis(200))) {
                    paid.add(payment.value());
                    count++;
                }
            }
        }
        assertEquals(300, count);
        assertEquals(IntStream.range(0, 300).mapToObj(n -> "paid " + n).collect(Collectors.toSet()), paid);
    }
}
