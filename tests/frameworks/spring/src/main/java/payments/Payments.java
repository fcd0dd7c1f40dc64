package payments;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

/** Every order becomes a payment: records and offsets are committed together. */
@SpringBootApplication
public class Payments {
    private final KafkaTemplate<String, String> template;

    Payments(KafkaTemplate<String, String> template) {
        this.template = template;
    }

    @KafkaListener(topics = "orders", groupId = "payments")
    void pay(String order) {
        template.send("payments", "paid " + order);
        if (order.contains("refuse")) {
            throw new IllegalStateException("refused");
        }
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Payments.class, arguments);
    }
}
