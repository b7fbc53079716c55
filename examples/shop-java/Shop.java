// A whole shop beside Sluice, in Java: login, a page with the button, payment, webhook. An EXAMPLE: anyone may log in
// under any name, and no money moves. Needs SLUICE_URL, SLUICE_ADMIN_KEY, SLUICE_BUYER_SECRET, SLUICE_WEBHOOK_SECRET
// (of `sluice webhook create SHOP_URL/hooks/sluice`), SALE, PORT, and the shop's origin in the server's cors_origins.

import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import sluice.Sluice;

public class Shop {
    static final Map<String, String> env = System.getenv(), sessions = new ConcurrentHashMap<>();
    static final Map<String, Object> orders = new ConcurrentHashMap<>(); // the shop's database: the state of each order
    static final Sluice sluice = new Sluice(env.get("SLUICE_URL"), env.get("SLUICE_ADMIN_KEY"));
    static final String secret = env.get("SLUICE_BUYER_SECRET"), hookSecret = env.get("SLUICE_WEBHOOK_SECRET");
    static final String head = "<!doctype html><html lang=en><meta charset=utf-8><title>Mugs</title>";

    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(env.get("PORT"))), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", Shop::serve);
        server.start();
        System.out.println("the shop is open at port " + env.get("PORT"));
    }

    static void serve(HttpExchange http) throws IOException {
        String text;
        int status = 200;
        try {
            text = respond(http, new String(http.getRequestBody().readAllBytes(), UTF_8));
        } catch (Sluice.Problem | Sluice.Lost e) {
            e.printStackTrace();
            text = "<h1>Try again in a moment</h1>";
            status = 502;
        }
        if (text.equals("/")) http.getResponseHeaders().set("Location", text);
        if (text.isEmpty() || text.equals("/")) status = text.isEmpty() ? 401 : 303;
        http.getResponseHeaders().set("Content-Type", text.startsWith("<") ? "text/html" : "text/plain");
        byte[] body = (text.startsWith("<") ? head + text : text).getBytes(UTF_8);
        http.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        http.getResponseBody().write(body);
        http.close();
    }

    /** Returns a page, "/" to go there, or "" for what is not let in. */
    static String respond(HttpExchange http, String body) {
        String cookie = http.getRequestHeaders().getOrDefault("Cookie", List.of("")).get(0);
        String user = sessions.getOrDefault(cookie.replaceFirst(".*user=([^;]*).*", "$1"), "");
        String query = http.getRequestURI().getRawQuery();
        String id = query == null ? "" : URLDecoder.decode(query.replaceFirst("^order=", ""), UTF_8);
        switch (http.getRequestMethod() + " " + http.getRequestURI().getPath()) {
            case "GET /":
                String token = user.isEmpty() ? "" : Sluice.buyerToken(user, secret, Duration.ofHours(1));
                return "<h1>Mug of the day</h1><p>Welcome " + user.replace("&", "&amp;").replace("<", "&lt;") + "</p>"
                    + "<script type=module src='" + env.get("SLUICE_URL") + "/assets/latest/button.js'></script>"
                    + "<sluice-button sale='" + env.get("SALE") + "' token='" + token + "' login='/login'"
                    + " pay='/pay?order={order}'></sluice-button>";
            case "GET /login":
                return "<h1>Log in</h1><form method=post><input name=name> <button>Log in</button></form>";
            case "POST /login":
                String session = UUID.randomUUID().toString();
                sessions.put(session, URLDecoder.decode(body.replaceFirst("^name=", ""), UTF_8));
                http.getResponseHeaders().set("Set-Cookie", "user=" + session + "; HttpOnly; SameSite=Lax; Path=/");
                return "/";
            case "GET /pay", "POST /pay":
                Sluice.Order order = sluice.order(id);
                if (!order.buyer().equals(user)) return "<h1>This is not your order</h1>";
                if (http.getRequestMethod().equals("GET")) {
                    return "<h1>Pay " + order.amount() / 100.0 + " " + order.currency() + "</h1>"
                        + "<form method=post><button>Pay</button></form>";
                }
                // What a payment provider's callback would do. The payment's id makes a repeat harmless.
                order = sluice.pay(id, "mock-" + id, order.amount(), order.currency());
                if (order.status().equals("refund_due")) sluice.refund(order.id()); // too late: the money goes back
                return "/";
            case "POST /hooks/sluice":
                var header = http.getRequestHeaders();
                Sluice.Event event = Sluice.verifyWebhook(hookSecret, header::getFirst, body.getBytes(UTF_8));
                if (event == null) return "";
                Sluice.Order seen = event.order(); // events of an order come in order, some more than once
                if (seen != null) orders.put(seen.id(), Map.of("buyer", seen.buyer(), "status", seen.status()));
                return "ok";
            case "GET /orders": return Sluice.Json.write(orders);
            default: return "<h1>Not found</h1>";
        }
    }
}
