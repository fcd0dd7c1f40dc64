package payments;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.Consumer;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.KafkaTemplate;

/** A broker that runs already: spring.kafka.bootstrap-servers says where. */
@SpringBootTest
class PaymentsTest {
    @Autowired KafkaTemplate<String, String> template;
    @Autowired ConsumerFactory<String, String> consumers;

    @Test
    void paysEveryOrderOnce() {
        check(template, consumers);
    }

    static void check(KafkaTemplate<String, String> template, ConsumerFactory<String, String> consumers) {
        template.executeInTransaction(t -> {
            t.send("orders", "1");
            t.send("orders", "2");
            return null;
        });
        List<String> paid = new ArrayList<>();
        try (Consumer<String, String> consumer = consumers.createConsumer("check", "check")) {
            consumer.subscribe(List.of("payments"));
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (paid.size() < 2 && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(payment -> paid.add(payment.value()));
            }
        }
        assertThat(paid).containsExactlyInAnyOrder("paid 1", "paid 2");
    }
}
