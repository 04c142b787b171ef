import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * A JVM in front of a broker: it hands every byte on, and does some work for each read, which is dear until it is compiled.
 *
 * Front PORT BROKER_PORT
 */
public final class Front {
    private static final Pattern WORDS = Pattern.compile("([a-z]+)-([0-9]+)");
    private static volatile long sink;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        int broker = Integer.parseInt(arguments[1]);
        try (ServerSocket door = new ServerSocket(port, 50, InetAddress.getLoopbackAddress())) {
            while (true) {
                Socket client = door.accept();
                Socket behind = new Socket(InetAddress.getLoopbackAddress(), broker);
                client.setTcpNoDelay(true);
                behind.setTcpNoDelay(true);
                hand(client, behind, true);
                hand(behind, client, false);
            }
        }
    }

    private static void hand(Socket from, Socket to, boolean works) {
        Thread thread = new Thread(() -> {
            byte[] bytes = new byte[1 << 16];
            try (from; to) {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                for (int read = in.read(bytes); read >= 0; read = in.read(bytes)) {
                    if (works) {
                        sink += work(read);
                    }
                    out.write(bytes, 0, read);
                }
            } catch (Exception closed) {
                sink++;
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static long work(int seed) {
        List<String> words = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            words.add(String.format("word-%d %08x %.3f", number * 7 % 5, seed * 31 + number, number / 3.0));
        }
        TreeMap<String, Long> counts = new TreeMap<>();
        for (String word : words) {
            var found = WORDS.matcher(word);
            while (found.find()) {
                counts.merge(found.group(1) + found.group(2), 1L, Long::sum);
            }
        }
        return counts.entrySet().stream().mapToLong(entry -> entry.getKey().hashCode() * entry.getValue()).sum();
    }
}
