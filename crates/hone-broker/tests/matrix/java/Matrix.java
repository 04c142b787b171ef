import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Plays the cells of the client matrix with Java's kafka-clients.
 *
 * <p>It is started with BOOTSTRAP; then every line of stdin is one cell, {@code NAME key=value ...}, and is answered by
 * one JSON object a step and a last one, {@code {"step":"end"}}. Judging is left to the caller: the program only counts.
 */
public final class Matrix {
  static final Duration PATIENCE = Duration.ofSeconds(45);
  static final int MEMBERS = 3;

  static String bootstrap;

  @FunctionalInterface
  interface Cell {
    void play(Parameters parameters) throws Exception;
  }

  @FunctionalInterface
  interface Step {
    Map<String, Object> play() throws Exception;
  }

  record Parameters(Map<String, String> given) {
    String text(String name) {
      return given.get(name);
    }

    int number(String name) {
      return Integer.parseInt(given.get(name));
    }

    long large(String name) {
      return Long.parseLong(given.get(name));
    }
  }

  public static void main(String[] arguments) {
    bootstrap = arguments[0];
    Map<String, Cell> cells = new HashMap<>();
    cells.put("produce", Matrix::produce);
    cells.put("round-trip", Matrix::roundTrip);
    cells.put("consume", Matrix::consume);
    cells.put("resume", Matrix::resume);
    cells.put("group", Matrix::group);
    cells.put("static", Matrix::staticMembers);
    cells.put("admin-topic", Matrix::adminTopic);
    cells.put("admin-log", Matrix::adminLog);
    cells.put("admin-groups", Matrix::adminGroups);
    cells.put("admin-delete", Matrix::adminDelete);
    cells.put("txn", Matrix::transaction);
    cells.put("txn-offsets", Matrix::transactionOffsets);
    cells.put("txn-open", Matrix::transactionOpen);
    cells.put("txn-fence", Matrix::transactionFence);
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextLine()) {
      String[] words = lines.nextLine().split(" ");
      Map<String, String> given = new HashMap<>();
      for (int index = 1; index < words.length; index++) {
        String[] pair = words[index].split("=", 2);
        given.put(pair[0], pair[1]);
      }
      try {
        cells.get(words[0]).play(new Parameters(given));
      } catch (Exception failed) {
        say("failed", Map.of("error", failed.toString()));
      }
      say("end", Map.of());
    }
    System.exit(0);
  }

  // What is said.

  static void say(String step, Map<String, ?> fields) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("step", step);
    line.putAll(fields);
    System.out.println(json(line));
    System.out.flush();
  }

  static String json(Object value) {
    if (value == null || value instanceof Number || value instanceof Boolean) {
      return String.valueOf(value);
    }
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream()
          .map(entry -> json(entry.getKey().toString()) + ":" + json(entry.getValue()))
          .collect(Collectors.joining(",", "{", "}"));
    }
    if (value instanceof Collection<?> items) {
      return items.stream().map(Matrix::json).collect(Collectors.joining(",", "[", "]"));
    }
    StringBuilder text = new StringBuilder("\"");
    for (char one : value.toString().toCharArray()) {
      if (one == '"' || one == '\\') {
        text.append('\\').append(one);
      } else if (one < ' ') {
        text.append(String.format("\\u%04x", (int) one));
      } else {
        text.append(one);
      }
    }
    return text.append('"').toString();
  }

  /** A step on its own: what fails is said, and the next step is played all the same. */
  static void attempt(String step, Step action) {
    try {
      say(step, action.play());
    } catch (ExecutionException failed) {
      say(step, Map.of("error", failed.getCause().toString()));
    } catch (Exception failed) {
      say(step, Map.of("error", failed.toString()));
    }
  }

  static void waitFor(Supplier<String> what, BooleanSupplier condition) throws InterruptedException {
    long begun = System.nanoTime();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - begun > PATIENCE.toNanos()) {
        throw new IllegalStateException(what.get() + " after " + PATIENCE);
      }
      Thread.sleep(20);
    }
  }

  // Producing.

  static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  static byte[] value(int number) {
    return bytes("value " + number + " of a record that is long enough to be worth compressing");
  }

  static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>(more);
    settings.put("bootstrap.servers", bootstrap);
    settings.putIfAbsent("linger.ms", 50);
    return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
  }

  /** Sends, and waits until every record is acknowledged. */
  static void send(KafkaProducer<byte[], byte[]> producer, List<ProducerRecord<byte[], byte[]>> records)
      throws Exception {
    List<Future<?>> sent = new ArrayList<>();
    for (ProducerRecord<byte[], byte[]> record : records) {
      sent.add(producer.send(record));
    }
    producer.flush();
    for (Future<?> one : sent) {
      one.get();
    }
  }

  static List<ProducerRecord<byte[], byte[]>> wave(String topic, int first, int count, int partitions) {
    return IntStream.range(first, first + count)
        .mapToObj(number -> new ProducerRecord<byte[], byte[]>(topic, number % partitions, null, value(number)))
        .collect(Collectors.toList());
  }

  static void produce(Parameters p) throws Exception {
    Map<String, Object> settings =
        Map.of(
            "compression.type", p.text("codec"), "acks", p.text("acks"), "enable.idempotence", p.text("idempotent"));
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (int number = 0; number < p.number("records"); number++) {
      records.add(new ProducerRecord<>(p.text("topic"), bytes("key " + number), value(number)));
    }
    try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
      send(producer, records);
    }
    say("produce", Map.of("records", records.size()));
  }

  /** Null and empty keys and values, repeated headers, a timestamp of the client's own. */
  static void roundTrip(Parameters p) throws Exception {
    String[][] contents = {{null, "null key"}, {"tombstone", null}, {"", ""}, {"headers", "v"}};
    List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
    for (int index = 0; index < contents.length; index++) {
      long timestamp = p.large("timestamp") + index;
      byte[] key = bytes(contents[index][0]);
      sent.add(new ProducerRecord<>(p.text("topic"), 0, timestamp, key, bytes(contents[index][1])));
    }
    sent.get(3).headers().add("a", bytes("1")).add("b", bytes("")).add("a", bytes("2"));
    try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
      send(producer, sent);
    }
    List<Object> said = new ArrayList<>();
    for (ConsumerRecord<byte[], byte[]> record : read(p.text("topic"), 1, sent.size(), "read_uncommitted")) {
      List<Object> headers = new ArrayList<>();
      record.headers().forEach(header -> headers.add(List.of(header.key(), text(header.value()))));
      Map<String, Object> one = new HashMap<>();
      one.put("key", text(record.key()));
      one.put("value", text(record.value()));
      one.put("headers", headers);
      one.put("timestamp", record.timestamp());
      said.add(one);
    }
    say("round-trip", Map.of("records", said));
  }

  // Consuming.

  static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>(more);
    settings.put("bootstrap.servers", bootstrap);
    settings.put("auto.offset.reset", "earliest");
    settings.put("fetch.max.wait.ms", 100);
    return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int longest) {
    List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
    consumer.poll(Duration.ofMillis(longest)).forEach(found::add);
    return found;
  }

  static List<ConsumerRecord<byte[], byte[]>> readOn(KafkaConsumer<byte[], byte[]> consumer, int wanted)
      throws InterruptedException {
    List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
    waitFor(
        () -> found.size() + " of " + wanted + " records read",
        () -> {
          found.addAll(poll(consumer, 200));
          return found.size() >= wanted;
        });
    return found;
  }

  /** Reads that many records from the start, and what comes in half a second more: there should be none. */
  static List<ConsumerRecord<byte[], byte[]>> read(String topic, int partitions, int wanted, String isolation)
      throws InterruptedException {
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolation))) {
      consumer.assign(
          IntStream.range(0, partitions).mapToObj(one -> new TopicPartition(topic, one)).collect(Collectors.toList()));
      List<ConsumerRecord<byte[], byte[]>> found = readOn(consumer, wanted);
      found.addAll(poll(consumer, 500));
      return found;
    }
  }

  static void consume(Parameters p) throws Exception {
    Map<Integer, CRC32> sums = new TreeMap<>();
    Map<Integer, Integer> counts = new TreeMap<>();
    String isolation = p.given().getOrDefault("isolation", "read_uncommitted");
    for (ConsumerRecord<byte[], byte[]> record :
        read(p.text("topic"), p.number("partitions"), p.number("records"), isolation)) {
      CRC32 sum = sums.computeIfAbsent(record.partition(), partition -> new CRC32());
      sum.update(record.value());
      sum.update('\n');
      counts.merge(record.partition(), 1, Integer::sum);
    }
    Map<String, Object> said = new TreeMap<>();
    sums.forEach(
        (partition, sum) ->
            said.put(partition.toString(), Map.of("records", counts.get(partition), "crc", sum.getValue())));
    say("consume", Map.of("partitions", said));
  }

  static Map<TopicPartition, OffsetAndMetadata> next(List<ConsumerRecord<byte[], byte[]>> taken) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (ConsumerRecord<byte[], byte[]> record : taken) {
      offsets.put(
          new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }
    return offsets;
  }

  /** Reads until there is enough, commits exactly what was wanted, and leaves. */
  static Set<String> readAndCommit(String topic, String group, int wanted) throws InterruptedException {
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", group, "enable.auto.commit", false))) {
      consumer.subscribe(List.of(topic));
      List<ConsumerRecord<byte[], byte[]>> taken = readOn(consumer, wanted).subList(0, wanted);
      consumer.commitSync(next(taken));
      return taken.stream().map(record -> text(record.value())).collect(Collectors.toSet());
    }
  }

  static void resume(Parameters p) throws Exception {
    int first = p.number("first");
    Set<String> early = readAndCommit(p.text("topic"), p.text("group"), first);
    Set<String> late = readAndCommit(p.text("topic"), p.text("group"), p.number("records") - first);
    Set<String> distinct = new HashSet<>(early);
    distinct.addAll(late);
    say("resume", Map.of("first", early.size(), "second", late.size(), "distinct", distinct.size()));
  }

  // Groups.

  /** What the members of a group have read. */
  static final class Seen {
    final Set<String> values = ConcurrentHashMap.newKeySet();
    final AtomicInteger read = new AtomicInteger();
  }

  /** A member of a group, polling in a thread of its own until it is told to leave. */
  static final class Member extends Thread implements ConsumerRebalanceListener {
    private final Map<String, Object> settings = new HashMap<>();
    private final String topic;
    private final Seen seen;
    volatile List<Integer> owned = List.of();
    volatile int revocations;
    volatile boolean leaving;
    volatile Exception failed;

    Member(Parameters p, String instance, Seen seen) {
      topic = p.text("topic");
      this.seen = seen;
      settings.put("group.id", p.text("group"));
      settings.put("group.protocol", p.text("protocol"));
      if (p.text("protocol").equals("classic")) {
        settings.put("heartbeat.interval.ms", 200);
        settings.put("session.timeout.ms", 10000);
      }
      if (instance != null) {
        settings.put("group.instance.id", instance);
      }
      setDaemon(true);
      start();
    }

    @Override
    public void run() {
      try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
        consumer.subscribe(List.of(topic), this);
        while (!leaving) {
          for (ConsumerRecord<byte[], byte[]> record : poll(consumer, 100)) {
            seen.values.add(text(record.value()));
            seen.read.incrementAndGet();
          }
          owned = consumer.assignment().stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
        }
      } catch (Exception exception) {
        failed = exception;
      }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
      if (!revoked.isEmpty()) {
        revocations++;
      }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {}

    void leave() throws Exception {
      leaving = true;
      join(PATIENCE.toMillis());
      if (failed != null) {
        throw failed;
      }
      if (isAlive()) {
        throw new IllegalStateException("a member could not be closed");
      }
    }
  }

  /** The members' partitions, once each has one owner and the numbers differ by one at most; null before. */
  static List<List<Integer>> balanced(List<Member> members, int partitions) {
    List<List<Integer>> owned = new ArrayList<>();
    for (Member member : members) {
      if (member.failed != null) {
        throw new IllegalStateException(member.failed);
      }
      owned.add(member.owned);
    }
    List<Integer> all = owned.stream().flatMap(List::stream).sorted().collect(Collectors.toList());
    int least = owned.stream().mapToInt(List::size).min().orElse(0);
    int most = owned.stream().mapToInt(List::size).max().orElse(0);
    boolean whole = all.equals(IntStream.range(0, partitions).boxed().collect(Collectors.toList()));
    return whole && most - least <= 1 ? owned : null;
  }

  static List<List<Integer>> settle(String step, List<Member> members, int partitions) throws InterruptedException {
    List<List<List<Integer>>> found = new ArrayList<>();
    waitFor(
        () -> step + ": owned " + members.stream().map(member -> member.owned).collect(Collectors.toList()),
        () -> {
          List<List<Integer>> owned = balanced(members, partitions);
          if (owned != null) {
            found.add(owned);
          }
          return owned != null;
        });
    return found.get(0);
  }

  static void phase(
      Parameters p, KafkaProducer<byte[], byte[]> producer, List<Member> members, Seen seen, String step, int number)
      throws Exception {
    int partitions = p.number("partitions");
    int records = p.number("records");
    send(producer, wave(p.text("topic"), number * records, records, partitions));
    List<List<Integer>> owned = settle(step, members, partitions);
    int wanted = (number + 1) * records;
    waitFor(
        () -> step + ": " + seen.values.size() + " of " + wanted + " records", () -> seen.values.size() >= wanted);
    say(step, Map.of("owned", owned, "distinct", seen.values.size()));
  }

  /** Three members; one leaves; another one comes. Records are written in each of the three phases. */
  static void group(Parameters p) throws Exception {
    Seen seen = new Seen();
    List<Member> members = new ArrayList<>();
    for (int index = 0; index < MEMBERS; index++) {
      members.add(new Member(p, null, seen));
    }
    try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
      phase(p, producer, members, seen, "three", 0);
      members.remove(MEMBERS - 1).leave();
      phase(p, producer, members, seen, "left", 1);
      members.add(new Member(p, null, seen));
      phase(p, producer, members, seen, "joined", 2);
    } finally {
      members.forEach(member -> member.leaving = true);
    }
    for (Member member : members) {
      member.leave();
    }
    say("group", Map.of("records", seen.read.get(), "distinct", seen.values.size()));
  }

  /** A static member that goes and comes back finds its partitions, and the others notice nothing. */
  static void staticMembers(Parameters p) throws Exception {
    Seen seen = new Seen();
    List<Member> members = new ArrayList<>();
    for (int index = 0; index < MEMBERS; index++) {
      members.add(new Member(p, "instance-" + index, seen));
    }
    try {
      List<List<Integer>> before = settle("three static members", members, p.number("partitions"));
      int calm = members.get(0).revocations + members.get(1).revocations;
      members.remove(MEMBERS - 1).leave();
      members.add(new Member(p, "instance-" + (MEMBERS - 1), seen));
      List<List<Integer>> after = settle("three static members again", members, p.number("partitions"));
      boolean revoked = members.get(0).revocations + members.get(1).revocations != calm;
      say("static", Map.of("before", before, "after", after, "revoked", revoked));
    } finally {
      members.forEach(member -> member.leaving = true);
    }
    for (Member member : members) {
      member.leave();
    }
  }

  // Admin.

  static Admin admin() {
    return Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 30000));
  }

  /** The answer, or nothing while the broker does not know the topic. */
  static <T> T answer(KafkaFuture<T> future) {
    try {
      return future.get();
    } catch (InterruptedException | ExecutionException failed) {
      throw new IllegalStateException(failed.getCause() == null ? failed : failed.getCause());
    }
  }

  static int partitionCount(Admin admin, String topic) {
    try {
      return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    } catch (InterruptedException | ExecutionException failed) {
      return 0;
    }
  }

  static String retention(Admin admin, String topic) {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    return answer(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms").value();
  }

  static void adminTopic(Parameters p) {
    String topic = p.text("topic");
    try (Admin admin = admin()) {
      attempt(
          "create-topic",
          () -> {
            NewTopic made = new NewTopic(topic, p.number("partitions"), (short) 1);
            admin.createTopics(List.of(made.configs(Map.of("retention.ms", p.text("retention_ms"))))).all().get();
            return Map.of();
          });
      attempt(
          "describe-topic",
          () -> {
            waitFor(() -> "the new topic", () -> partitionCount(admin, topic) > 0);
            return Map.of("partitions", partitionCount(admin, topic));
          });
      attempt("describe-configs", () -> Map.of("retention_ms", retention(admin, topic)));
      attempt(
          "alter-configs",
          () -> {
            String altered = p.text("altered_ms");
            ConfigEntry entry = new ConfigEntry("retention.ms", altered);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            AlterConfigOp operation = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all().get();
            waitFor(() -> "the new value", () -> retention(admin, topic).equals(altered));
            return Map.of("altered", retention(admin, topic));
          });
      attempt(
          "create-partitions",
          () -> {
            int more = p.number("more");
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(more))).all().get();
            waitFor(() -> "the new partitions", () -> partitionCount(admin, topic) == more);
            return Map.of("partitions", partitionCount(admin, topic));
          });
    }
  }

  static long offset(Admin admin, TopicPartition partition, OffsetSpec spec) {
    return answer(admin.listOffsets(Map.of(partition, spec)).all()).get(partition).offset();
  }

  static void adminLog(Parameters p) {
    TopicPartition partition = new TopicPartition(p.text("topic"), 0);
    try (Admin admin = admin()) {
      attempt(
          "list-offsets",
          () ->
              Map.of(
                  "earliest", offset(admin, partition, OffsetSpec.earliest()),
                  "latest", offset(admin, partition, OffsetSpec.latest()),
                  "at", offset(admin, partition, OffsetSpec.forTimestamp(p.large("at")))));
      attempt(
          "delete-records",
          () -> {
            RecordsToDelete before = RecordsToDelete.beforeOffset(p.large("before"));
            long low =
                admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
            return Map.of("low_watermark", low, "earliest", offset(admin, partition, OffsetSpec.earliest()));
          });
    }
  }

  static boolean isListed(Admin admin, String group) {
    return answer(admin.listGroups().all()).stream().anyMatch(listing -> listing.groupId().equals(group));
  }

  static void adminGroups(Parameters p) {
    String group = p.text("group");
    TopicPartition partition = new TopicPartition(p.text("topic"), 0);
    try (Admin admin = admin()) {
      attempt("list-groups", () -> Map.of("listed", isListed(admin, group)));
      attempt(
          "describe-groups",
          () ->
              Map.of(
                  "state",
                  admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString()));
      attempt(
          "group-offsets",
          () ->
              Map.of(
                  "committed",
                  admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset()));
      attempt(
          "delete-groups",
          () -> {
            admin.deleteConsumerGroups(List.of(group)).all().get();
            return Map.of("listed", isListed(admin, group));
          });
    }
  }

  static void adminDelete(Parameters p) {
    String topic = p.text("topic");
    try (Admin admin = admin()) {
      attempt("describe-cluster", () -> Map.of("brokers", admin.describeCluster().nodes().get().size()));
      attempt(
          "delete-topic",
          () -> {
            admin.deleteTopics(List.of(topic)).all().get();
            BooleanSupplier gone = () -> !answer(admin.listTopics().names()).contains(topic);
            waitFor(() -> "the topic's end", gone);
            return Map.of("listed", !gone.getAsBoolean());
          });
    }
  }

  // Transactions.

  static KafkaProducer<byte[], byte[]> transactional(String id) {
    KafkaProducer<byte[], byte[]> producer =
        producer(Map.of("transactional.id", id, "transaction.timeout.ms", 30000));
    producer.initTransactions();
    return producer;
  }

  static void finish(KafkaProducer<byte[], byte[]> producer, String how) {
    if (how.equals("commit")) {
      producer.commitTransaction();
    } else {
      producer.abortTransaction();
    }
  }

  static void transaction(Parameters p) throws Exception {
    try (KafkaProducer<byte[], byte[]> producer = transactional(p.text("id"))) {
      producer.beginTransaction();
      // Waiting for the acknowledgements: otherwise a client may drop on abort what it has not sent.
      send(producer, wave(p.text("topic"), p.number("first"), p.number("records"), 1));
      finish(producer, p.text("finish"));
    }
    say("txn", Map.of("records", p.number("records")));
  }

  /** Reads records of the source, writes as many to the topic, and sends the offsets along. */
  static void transactionOffsets(Parameters p) throws Exception {
    int wanted = p.number("records");
    Map<String, Object> settings = Map.of("group.id", p.text("group"), "enable.auto.commit", false);
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings);
        KafkaProducer<byte[], byte[]> producer = transactional(p.text("id"))) {
      consumer.subscribe(List.of(p.text("source")));
      List<ConsumerRecord<byte[], byte[]>> found = readOn(consumer, wanted).subList(0, wanted);
      producer.beginTransaction();
      send(
          producer,
          found.stream()
              .map(record -> new ProducerRecord<byte[], byte[]>(p.text("topic"), record.value()))
              .collect(Collectors.toList()));
      producer.sendOffsetsToTransaction(next(found), consumer.groupMetadata());
      finish(producer, p.text("finish"));
    }
    say("txn-offsets", Map.of("records", wanted));
  }

  /** What readers see while a transaction is open, and what the admin client says of it. */
  static void transactionOpen(Parameters p) throws Exception {
    String topic = p.text("topic");
    int visible = p.number("visible");
    int records = p.number("records");
    try (KafkaProducer<byte[], byte[]> producer = transactional(p.text("id"));
        Admin admin = admin()) {
      producer.beginTransaction();
      send(producer, wave(topic, 0, records, 1));
      int everything = read(topic, 1, visible + records, "read_uncommitted").size();
      int committed = read(topic, 1, visible, "read_committed").size();
      say("txn-open", Map.of("committed", committed, "uncommitted", everything));
      attempt(
          "list-transactions",
          () -> {
            ListTransactionsOptions ongoing =
                new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING));
            return Map.of(
                "ongoing",
                admin.listTransactions(ongoing).all().get().stream()
                    .map(listing -> listing.transactionalId())
                    .collect(Collectors.toCollection(TreeSet::new)));
          });
      attempt(
          "describe-producers",
          () -> {
            TopicPartition partition = new TopicPartition(topic, 0);
            long open =
                admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().stream()
                    .filter(state -> state.currentTransactionStartOffset().isPresent())
                    .count();
            return Map.of("open", open);
          });
      producer.abortTransaction();
    }
  }

  /** A second producer of the same id takes over; the first one must notice. */
  static void transactionFence(Parameters p) throws Exception {
    String topic = p.text("topic");
    KafkaProducer<byte[], byte[]> zombie = transactional(p.text("id"));
    zombie.beginTransaction();
    send(zombie, List.of(new ProducerRecord<>(topic, bytes("of the zombie"))));
    try (KafkaProducer<byte[], byte[]> heir = transactional(p.text("id"))) {
      String fenced = null;
      try {
        send(zombie, List.of(new ProducerRecord<>(topic, bytes("of the zombie, too"))));
        zombie.commitTransaction();
      } catch (Exception failed) {
        fenced = failed.toString();
      }
      heir.beginTransaction();
      send(heir, wave(topic, 0, p.number("records"), 1));
      heir.commitTransaction();
      zombie.close(Duration.ZERO);
      Map<String, Object> said = new HashMap<>();
      said.put("records", p.number("records"));
      said.put("fenced", fenced);
      say("txn-fence", said);
    }
  }
}
