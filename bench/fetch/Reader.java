import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads all partitions of a topic from its end on: ADDRESS TOPIC PARTITIONS MIN_BYTES MAX_WAIT_MS. */
final class Reader {
    public static void main(String[] args) {
        var settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("fetch.min.bytes", args[3]);
        settings.put("fetch.max.wait.ms", args[4]);
        settings.put("enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            var partitions = java.util.stream.IntStream.range(0, Integer.parseInt(args[2]))
                .mapToObj(number -> new TopicPartition(args[1], number)).toList();
            consumer.assign(partitions);
            consumer.seekToEnd(partitions);
            while (true) {
                consumer.poll(Duration.ofMillis(1000));
            }
        }
    }
}
