import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

/** Orders over HTTP: it reads a small JSON object, keeps totals under a lock, and answers with JSON. */
public final class Service {
  private static final int KEPT = 20_000;
  private final ReentrantLock lock = new ReentrantLock();
  private final Map<String, Long> totals = new HashMap<>();
  private final List<Map<String, String>> orders = new ArrayList<>();

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    Service service = new Service();
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/health", exchange -> answer(exchange, "{\"status\":\"up\"}"));
    server.createContext("/orders", exchange -> {
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      answer(exchange, service.take(body));
    });
    server.setExecutor(Executors.newFixedThreadPool(2));
    server.start();
    System.out.println("ready on " + port);
  }

  private static void answer(com.sun.net.httpserver.HttpExchange exchange, String text) throws java.io.IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(200, bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  String take(String body) {
    Map<String, String> order = parse(body);
    long cents = Long.parseLong(order.getOrDefault("cents", "0"));
    lock.lock();
    try {
      long total = totals.merge(order.getOrDefault("customer", "?"), cents, Long::sum);
      orders.add(order);
      if (orders.size() > KEPT) {
        orders.subList(0, KEPT / 2).clear();
      }
      return "{\"orders\":" + orders.size() + ",\"total\":" + total + "}";
    } finally {
      lock.unlock();
    }
  }

  /** A flat JSON object of texts and numbers. */
  static Map<String, String> parse(String text) {
    Map<String, String> found = new HashMap<>();
    for (String field : text.replaceAll("[{}\"\\s]", "").split(",")) {
      int colon = field.indexOf(':');
      if (colon > 0) {
        found.put(field.substring(0, colon), field.substring(colon + 1));
      }
    }
    return found;
  }
}
