// Sends a load of Hone's through Apache Kafka's own producer (kafka-clients), by the line protocol of docs/client-protocol.md.
//
//   mvn -q -f examples/clients/java/pom.xml dependency:copy-dependencies -DoutputDirectory=/tmp/jars
//   hone load 127.0.0.1:9092 --client "java -cp '/tmp/jars/*' examples/clients/java/Client.java" --client-set linger.ms=5
//
// A single file: Java 17 or newer compiles it as it starts. Every property of the producer is a setting.

import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class Client {
    /** A call that took longer than this had to wait for room in the client. */
    private static final long BLOCKED_NS = 1_000_000;
    /** Closer than this, sleeping would be later than waiting awake. */
    private static final long AWAKE_NS = 60_000;
    /** Behind the last due time of a stretch. */
    private static final long END = -1;

    private record Material(byte[] key, byte[] value) {}

    private final BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 17);
    private final BufferedWriter out =
            new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16);
    private final Properties properties = new Properties();
    private final List<Material> records = new ArrayList<>();
    private final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
    private final Map<String, String> security = new HashMap<>();
    private String topic;
    private int count = 1;
    /** The producer of each record; all of them one after the other where there is none. */
    private int[] turns = {};

    public static void main(String[] arguments) throws Exception {
        Client client = new Client();
        try {
            client.prepare();
            client.serve();
        } catch (Exception problem) {
            client.say("error " + problem.toString().replace('\n', ' '));
        } finally {
            client.flush();
        }
        // The producers' threads would keep a JVM alive that nobody talks to any more.
        System.exit(0);
    }

    private void say(String line) throws IOException {
        synchronized (out) {
            out.write(line);
            out.write('\n');
        }
    }

    private void flush() throws IOException {
        synchronized (out) {
            out.flush();
        }
    }

    private void prepare() throws Exception {
        String line;
        do {
            line = in.readLine();
            if (line == null) {
                throw new EOFException("the input ended before prepare");
            }
            String[] words = line.split(" ", 2);
            String rest = words.length > 1 ? words[1] : "";
            switch (words[0]) {
                case "bootstrap" -> properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, rest);
                case "topic" -> topic = rest;
                case "acks" -> properties.put(ProducerConfig.ACKS_CONFIG, rest);
                case "compression" -> properties.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, rest);
                case "idempotent" -> properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, rest);
                case "timeout_ms" -> limit(Long.parseLong(rest));
                case "producers" -> count = Integer.parseInt(rest);
                case "records" -> read(Path.of(rest));
                case "turns" -> readTurns(Path.of(rest));
                case "tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "sasl_mechanism", "sasl_user",
                        "sasl_password" -> security.put(words[0], rest);
                case "set" -> set(rest.split(" ", 2));
                default -> { }
            }
        } while (!line.equals("prepare"));
        properties.put(ProducerConfig.CLIENT_ID_CONFIG, "hone-load");
        properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        secure();
        for (int producer = 0; producer < count; producer++) {
            producers.add(new KafkaProducer<>(properties));
            producers.get(producer).partitionsFor(topic);
        }
        ProducerConfig config = new ProducerConfig(properties);
        for (String key : List.of("linger.ms", "batch.size", "buffer.memory", "max.in.flight.requests.per.connection",
                "max.request.size", "partitioner.ignore.keys", "enable.idempotence", "delivery.timeout.ms")) {
            say("using " + key + " " + config.values().get(key));
        }
        say("ready kafka-clients " + AppInfoParser.getVersion());
        flush();
    }

    /** A delivery includes the linger and one request, so the request's own limit must be no longer. */
    private void limit(long timeoutMs) {
        properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, (int) timeoutMs);
        properties.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, (int) Math.max(1, timeoutMs / 2));
        properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, timeoutMs);
    }

    /** TLS and the login, in the producer's words. */
    private void secure() throws IOException {
        boolean tls = security.containsKey("tls");
        boolean login = security.containsKey("sasl_mechanism");
        if (security.containsKey("tls_server_name") || "believe-anyone".equals(security.get("tls"))) {
            throw new IOException("kafka-clients verifies the name that it connects to, and every certificate");
        }
        properties.put("security.protocol", (login ? "SASL_" : "") + (tls ? "SSL" : "PLAINTEXT"));
        if (security.containsKey("tls_ca")) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", security.get("tls_ca"));
        }
        if (security.containsKey("tls_cert")) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.certificate.chain", Files.readString(Path.of(security.get("tls_cert"))));
            properties.put("ssl.keystore.key", Files.readString(Path.of(security.get("tls_key"))));
        }
        if (login) {
            String mechanism = security.get("sasl_mechanism");
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\""
                    + quoted(security.get("sasl_user")) + "\" password=\"" + quoted(security.get("sasl_password"))
                    + "\";");
        }
    }

    private static String quoted(String text) {
        return text.replace("\\", "\\\\").replace("\"", "\\\"");
    }

    private void set(String[] pair) {
        if (!ProducerConfig.configNames().contains(pair[0])) {
            throw new IllegalArgumentException("the producer has no property " + pair[0]);
        }
        properties.put(pair[0], pair.length > 1 ? pair[1] : "");
    }

    private void read(Path file) throws IOException {
        try (DataInputStream bytes = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
            while (bytes.available() > 0) {
                int length = bytes.readInt();
                byte[] key = length < 0 ? null : bytes.readNBytes(length);
                records.add(new Material(key, bytes.readNBytes(bytes.readInt())));
            }
        }
        if (records.isEmpty()) {
            throw new IOException("there are no records to send");
        }
    }

    /** The producer of each record, in turn. */
    private void readTurns(Path file) throws IOException {
        IntBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(file)).asIntBuffer();
        turns = new int[numbers.remaining()];
        numbers.get(turns);
        if (turns.length == 0) {
            throw new IOException("there are no turns");
        }
    }

    private KafkaProducer<byte[], byte[]> producerOf(int index) {
        int turn = turns.length == 0 ? index : turns[index % turns.length];
        return producers.get(turn % producers.size());
    }

    private void serve() throws Exception {
        Thread flusher = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(20);
                    flush();
                }
            } catch (IOException | InterruptedException gone) {
                System.exit(1);
            }
        });
        flusher.setDaemon(true);
        flusher.start();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("go ")) {
                stretch(Long.parseLong(line.substring(3)));
                say("done");
                flush();
            }
        }
    }

    /** Hands over every record of a stretch at its time, and returns when all have been reported. */
    private void stretch(long startNs) throws Exception {
        BlockingQueue<Long> dues = new ArrayBlockingQueue<>(1 << 16);
        Thread reader = new Thread(() -> readDues(dues));
        reader.setDaemon(true);
        reader.start();
        long blockedUntilNs = Long.MIN_VALUE;
        int index = 0;
        Open reports = new Open();
        for (long dueNs = dues.take(); dueNs != END; dueNs = dues.take()) {
            sleepUntil(startNs + dueNs);
            long handedNs = System.nanoTime() - startNs;
            boolean waited = dueNs < blockedUntilNs;
            hand(index, handedNs, waited, startNs, reports);
            long afterNs = System.nanoTime() - startNs;
            if (afterNs - handedNs > BLOCKED_NS) {
                blockedUntilNs = afterNs;
            }
            index++;
        }
        reports.await();
    }

    /** Counts the records that have no report. */
    private static final class Open {
        private long count;

        synchronized void add() {
            count++;
        }

        synchronized void end() {
            if (--count == 0) {
                notifyAll();
            }
        }

        synchronized void await() throws InterruptedException {
            while (count > 0) {
                wait();
            }
        }
    }

    private void hand(int index, long handedNs, boolean waited, long startNs, Open reports) {
        Material material = records.get(index % records.size());
        reports.add();
        try {
            producerOf(index).send(
                    new ProducerRecord<>(topic, material.key(), material.value()),
                    (stored, problem) -> tell(index, handedNs, waited, startNs, reports, stored, problem));
        } catch (RuntimeException problem) {
            tell(index, handedNs, waited, startNs, reports, null, problem);
        }
    }

    private void tell(int index, long handedNs, boolean waited, long startNs, Open reports, RecordMetadata stored,
            Exception problem) {
        long endedNs = System.nanoTime() - startNs;
        String mark = waited ? " waited" : "";
        String times = index + " " + handedNs + " " + endedNs;
        try {
            if (problem == null) {
                long offset = stored.hasOffset() ? stored.offset() : -1;
                say("ack " + times + " " + stored.partition() + " " + offset + mark);
            } else {
                say("fail " + times + " " + name(problem) + mark);
            }
        } catch (IOException gone) {
            System.exit(1);
        } finally {
            reports.end();
        }
    }

    /** One word for an error. */
    private static String name(Exception problem) {
        return problem instanceof TimeoutException ? "timeout" : problem.getClass().getSimpleName();
    }

    private void readDues(BlockingQueue<Long> dues) {
        try {
            for (String line = in.readLine(); line != null && !line.equals("end"); line = in.readLine()) {
                if (line.startsWith("due ")) {
                    for (String word : line.substring(4).split(" ")) {
                        dues.put(Long.parseLong(word));
                    }
                }
            }
            dues.put(END);
        } catch (IOException | InterruptedException gone) {
            System.exit(1);
        }
    }

    private static void sleepUntil(long atNs) {
        for (long leftNs = atNs - System.nanoTime(); leftNs > 0; leftNs = atNs - System.nanoTime()) {
            if (leftNs > AWAKE_NS) {
                LockSupport.parkNanos(leftNs - AWAKE_NS);
            } else {
                Thread.onSpinWait();
            }
        }
    }
}
