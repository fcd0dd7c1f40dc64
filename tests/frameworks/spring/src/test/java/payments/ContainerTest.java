package payments;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** A broker in a container of its own. */
@SpringBootTest
@Testcontainers
@EnabledIfEnvironmentVariable(named = "STUNTBROKER_IMAGE", matches = ".+")
class ContainerTest {
    @Container
    @ServiceConnection
    static KafkaContainer kafka =
        new KafkaContainer(DockerImageName.parse("stuntbroker").asCompatibleSubstituteFor("apache/kafka"));

    @Autowired KafkaTemplate<String, String> template;
    @Autowired ConsumerFactory<String, String> consumers;

    @Test
    void paysEveryOrderOnce() {
        PaymentsTest.check(template, consumers);
    }
}
