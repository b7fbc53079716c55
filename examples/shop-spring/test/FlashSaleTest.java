// FlashSale against a real server: `go test -C test ./clients` starts one and runs this.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import shop.FlashSale;
import shop.Shop;
import sluice.Sluice;

public class FlashSaleTest {
    static final Map<String, String> env = System.getenv();
    static final Sluice sluice = new Sluice(env.get("SLUICE_URL"), env.get("SLUICE_ADMIN_KEY"));
    static final BlockingQueue<String> changed = new LinkedBlockingQueue<>();
    static final List<String> asked = new CopyOnWriteArrayList<>(); // of the shop's payments
    static final Shop shop = new Shop() {
        @Override public void orderChanged(Sluice.Order now, long seq) { changed.add(now.id() + " " + now.status()); }
        @Override public boolean isGenuine(Map<String, String> sent) { return sent.get("sign").equals("right"); }
        @Override public void giveBack(String payment) { asked.add("give back " + payment); }
        @Override public void review(String payment, String code) { asked.add(payment + " " + code); }
    };

    public static void main(String[] args) {
        try {
            run();
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // the receiver would keep it alive
    }

    static void run() throws Exception {
        FlashSale[] sale = new FlashSale[1];
        HttpServer receiver = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        receiver.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(sale[0].webhookStatus(exchange.getRequestHeaders()::getFirst, body), -1);
            exchange.close();
        });
        String secret = (String) sluice.ask("POST", "/v1/admin/webhooks", Map.of("url",
            "http://127.0.0.1:" + receiver.getAddress().getPort() + "/")).get("secret");
        sale[0] = new FlashSale(sluice, env.get("SLUICE_BUYER_SECRET"), secret, shop);
        receiver.start();
        Map<String, Object> terms = new HashMap<>(Map.of("id", "spring", "sku", "MUG-1", "title", "A mug", "total", 5,
            "price", Map.of("amount", 1900, "currency", "CNY"), "opens_at", Instant.now().minusSeconds(1).toString()));
        terms.put("max_per_buyer", null);
        sluice.ask("POST", "/v1/admin/sales", terms);

        String first = claim(sale[0]), second = claim(sale[0]);
        check(pay(sale[0], first, "pay-1", "1900", "wrong") == 401 && asked.isEmpty());
        check(pay(sale[0], first, "pay-1", "1900", "right") == 204 && sluice.order(first).status().equals("paid"));
        check(pay(sale[0], first, "pay-1", "1900", "right") == 204 && asked.isEmpty());
        check(pay(sale[0], first, "pay-2", "1900", "right") == 204 && asked.remove("pay-2 payment_conflict"));
        check(pay(sale[0], second, "pay-3", "19", "right") == 204 && asked.remove("pay-3 payment_amount"));
        sluice.cancel(second);
        check(pay(sale[0], second, "pay-4", "1900", "right") == 204 && asked.remove("give back pay-4"));
        check(sluice.order(second).status().equals("refunded") && asked.isEmpty());
        Sluice silent = new Sluice("http://127.0.0.1:1", "k", Duration.ofMillis(100));
        FlashSale nowhere = new FlashSale(silent, "s", secret, shop);
        check(pay(nowhere, first, "pay-5", "1900", "right") == 503 && asked.isEmpty());

        for (String last = ""; !last.equals(second + " refunded"); ) last = changed.poll(30, TimeUnit.SECONDS);
        check(sale[0].webhookStatus(name -> "1", "{}".getBytes()) == 401);
    }

    /** Claims as a buyer with the shop's token. */
    static String claim(FlashSale sale) {
        return sluice.claim("spring", Sluice.newKey(), 1, sale.token("ann"), null, null).order();
    }

    static int pay(FlashSale sale, String order, String payment, String amount, String sign) {
        return sale.paymentStatus(
            Map.of("order", order, "payment", payment, "amount", amount, "currency", "CNY", "sign", sign));
    }

    static void check(boolean holds) {
        if (!holds) throw new AssertionError(asked + " " + changed);
    }
}
