import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A reader of committed records who is there all the time, from the beginning of the topic on. */
final class Watch implements AutoCloseable {
    private final Map<Integer, List<String>> values = new TreeMap<>();
    private final int partitions;
    private final Thread thread;
    private volatile boolean ended;

    Watch(Peer peer, String topic, int partitions) {
        this.partitions = partitions;
        thread = new Thread(() -> run(peer, topic));
        thread.start();
    }

    private void run(Peer peer, String topic) {
        try (KafkaConsumer<String, String> consumer = peer.consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(IntStream.range(0, partitions).mapToObj(n -> new TopicPartition(topic, n)).toList());
            while (!ended) {
                consumer.poll(Duration.ofMillis(50)).forEach(record -> take(record.partition(), record.value()));
            }
        }
    }

    private synchronized void take(int partition, String value) {
        values.computeIfAbsent(partition, ignored -> new ArrayList<>()).add(value);
        notifyAll();
    }

    /** All values so far, once every partition has shown this one. */
    synchronized Map<Integer, List<String>> waitFor(String value) throws InterruptedException {
        long deadline = System.nanoTime() + Peer.DEADLINE.toNanos();
        while (values.values().stream().filter(seen -> seen.contains(value)).count() < partitions) {
            Peer.checkTime(deadline, values);
            wait(100);
        }
        return values;
    }

    @Override
    public void close() {
        ended = true;
        try {
            thread.join();
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }
}
