import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** Passes bytes between its port and another one: the pauses of its virtual machine are pauses of whoever is behind it. */
final class Proxy {
    /** What a collector has to go through. */
    static final List<Object[]> LIVE = new ArrayList<>();
    static volatile int sink;

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        int target = Integer.parseInt(words[1]);
        int live = Integer.parseInt(words[2]);
        for (int block = 0; block < live; block++) {
            Object[] one = new Object[1000];
            for (int place = 0; place < one.length; place++) {
                one[place] = new Object[] {place, block};
            }
            LIVE.add(one);
        }
        if (words.length > 3) {
            Thread stubborn = new Thread(() -> stubborn(Integer.parseInt(words[3])));
            stubborn.setDaemon(true);
            stubborn.start();
        }
        ServerSocket server = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
        System.out.println("ready");
        while (true) {
            Socket client = server.accept();
            Socket behind = new Socket(InetAddress.getLoopbackAddress(), target);
            client.setTcpNoDelay(true);
            behind.setTcpNoDelay(true);
            copy(client, behind);
            copy(behind, client);
        }
    }

    static void copy(Socket from, Socket to) {
        Thread thread = new Thread(() -> {
            byte[] bytes = new byte[1 << 16];
            try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
                for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
                    out.write(bytes, 0, count);
                }
            } catch (java.io.IOException ended) {
                // The other side is gone.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** A loop without a poll for safepoints, again and again. Whoever wants one waits for its end. */
    static void stubborn(int turns) {
        while (true) {
            sink = spin(turns, sink);
            try {
                Thread.sleep(300);
            } catch (InterruptedException stop) {
                return;
            }
        }
    }

    static int spin(int turns, int from) {
        int sum = from;
        for (int turn = 0; turn < turns; turn++) {
            sum = sum * 31 + (sum >>> 7) + turn;
        }
        return sum;
    }
}
