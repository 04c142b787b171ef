// Writes topics with Kafka's own producer and known habits, all at the same time:
//
//   java -cp 'JARS/*' Writer.java BROKER SECONDS TOPIC|HABIT|NAME=VALUE,... ...
//
// Habits: rate:N        N records a second, at random moments, placed by the producer's own partitioner
//         rates:A;B;C   so many to partition 0, 1, 2
//         keys:N:K      N records a second with one of K keys
//         sync:N        N records one after the other at most, each waits for its acknowledgement
//         flush:N:M     M times a second N records and a flush
//         commit:N:M    M times a second a transaction of N records
// Prints the topic and the number of records that were acknowledged, one line for each.

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Writer {
    static final int VALUE_BYTES = 100;

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[1]);
        List<Thread> threads = new ArrayList<>();
        for (int at = 2; at < args.length; at++) {
            String[] parts = args[at].split("\\|");
            Properties settings = settings(args[0], parts.length > 2 ? parts[2] : "", parts[0], parts[1]);
            Thread thread = new Thread(() -> write(parts[0], parts[1].split(":"), settings, seconds));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    static Properties settings(String broker, String text, String topic, String habit) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", broker);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        if (habit.startsWith("commit")) {
            settings.put("transactional.id", topic);
        }
        for (String pair : text.split(",")) {
            if (pair.contains("=")) {
                settings.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
            }
        }
        return settings;
    }

    static void write(String topic, String[] habit, Properties settings, double seconds) {
        AtomicLong acked = new AtomicLong();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.partitionsFor(topic);
            Random random = new Random(topic.hashCode());
            long end = System.nanoTime() + (long) (seconds * 1e9);
            switch (habit[0]) {
                case "rate" -> paced(producer, topic, new double[] {Double.parseDouble(habit[1])}, false, 0, random, end, acked);
                case "keys" -> paced(producer, topic, new double[] {Double.parseDouble(habit[1])}, false,
                        Integer.parseInt(habit[2]), random, end, acked);
                case "rates" -> {
                    String[] texts = habit[1].split(";");
                    double[] rates = new double[texts.length];
                    for (int at = 0; at < rates.length; at++) {
                        rates[at] = Double.parseDouble(texts[at]);
                    }
                    paced(producer, topic, rates, true, 0, random, end, acked);
                }
                case "sync" -> {
                    for (int left = Integer.parseInt(habit[1]); left > 0 && System.nanoTime() < end; left--) {
                        producer.send(new ProducerRecord<>(topic, value(random))).get();
                        acked.incrementAndGet();
                    }
                }
                case "flush", "commit" -> grouped(producer, topic, habit, random, end, acked);
                default -> throw new IllegalArgumentException(habit[0]);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        synchronized (System.out) {
            System.out.println(topic + " " + acked.get());
        }
    }

    static byte[] value(Random random) {
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        return value;
    }

    /** Open loop: each partition, or all together, has arrivals of its own. */
    static void paced(KafkaProducer<byte[], byte[]> producer, String topic, double[] rates, boolean placed, int keys,
            Random random, long end, AtomicLong acked) {
        long[] due = new long[rates.length];
        for (int at = 0; at < due.length; at++) {
            due[at] = System.nanoTime() + gap(random, rates[at]);
        }
        while (true) {
            int next = 0;
            for (int at = 1; at < due.length; at++) {
                next = due[at] < due[next] ? at : next;
            }
            if (due[next] >= end) {
                return;
            }
            while (System.nanoTime() < due[next]) {
                LockSupport.parkNanos(due[next] - System.nanoTime());
            }
            byte[] key = keys > 0 ? ("key-" + random.nextInt(keys)).getBytes() : null;
            producer.send(new ProducerRecord<>(topic, placed ? next : null, key, value(random)), (metadata, error) -> {
                if (error == null) {
                    acked.incrementAndGet();
                }
            });
            due[next] += gap(random, rates[next]);
        }
    }

    static void grouped(KafkaProducer<byte[], byte[]> producer, String topic, String[] habit, Random random, long end,
            AtomicLong acked) throws Exception {
        boolean commits = habit[0].equals("commit");
        int records = Integer.parseInt(habit[1]);
        if (commits) {
            producer.initTransactions();
        }
        long due = System.nanoTime();
        while (due < end) {
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(due - System.nanoTime());
            }
            if (commits) {
                producer.beginTransaction();
            }
            for (int left = records; left > 0; left--) {
                producer.send(new ProducerRecord<>(topic, 0, null, value(random)));
                acked.incrementAndGet();
            }
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.flush();
            }
            due += gap(random, Double.parseDouble(habit[2]));
        }
    }

    static long gap(Random random, double perSecond) {
        return (long) (-Math.log(1.0 - random.nextDouble()) * 1e9 / perSecond);
    }
}
