// The client against a real server: `go test -C test ./clients` starts one and runs this.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.IntFunction;
import sluice.Sluice;

public class ClientTest {
    static final String URL = System.getenv("SLUICE_URL"), KEY = System.getenv("SLUICE_ADMIN_KEY");
    static final String SECRET = System.getenv("SLUICE_BUYER_SECRET");
    static final Sluice shop = new Sluice(URL, KEY);

    public static void main(String[] args) {
        try {
            json();
            keepsItsKey();
            givesUp();
            changesOrders();
            passesAddressesOn();
            events();
            webhook();
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // the servers of this test would keep it alive
        }
        System.exit(0);
    }

    static void check(boolean holds, Object... said) {
        if (!holds) throw new AssertionError(Arrays.toString(said));
    }

    static Sluice.Problem refused(Runnable call) {
        try {
            call.run();
        } catch (Sluice.Problem e) {
            return e;
        }
        throw new AssertionError("not refused");
    }

    static void lost(Runnable call) {
        try {
            call.run();
        } catch (Sluice.Lost e) {
            check(e.getMessage().contains("outcome is unknown"), e);
            return;
        }
        throw new AssertionError("not lost");
    }

    static void await(BooleanSupplier holds) throws InterruptedException {
        for (Instant end = Instant.now().plusSeconds(30); !holds.getAsBoolean(); Thread.sleep(20)) {
            check(Instant.now().isBefore(end), "not in time");
        }
    }

    static int made;

    static String sale(Object... more) throws InterruptedException {
        Map<String, Object> sale = new HashMap<>(Map.of("id", "java-" + ++made, "sku", "MUG-1", "title", "A \"mug\" \u4e2d",
            "price", Map.of("amount", 1900, "currency", "CNY"), "total", 10, "opens_at", Instant.now().minusSeconds(1).toString()));
        sale.put("max_per_buyer", null);
        for (int i = 0; i < more.length; i += 2) sale.put((String) more[i], more[i + 1]);
        String id = (String) shop.ask("POST", "/v1/admin/sales", sale).get("id");
        await(() -> shop.sale(id).get("state").equals("open"));
        return id;
    }

    static String token(String buyer) { return Sluice.buyerToken(buyer, SECRET, Duration.ofHours(1)); }

    // A proxy before the server. What `first` says of a request, by its number: null passes it on, "" passes it on and
    // drops the answer, "stall" has it end in the middle of a body, and else it is the answer: a status, a space,
    // Retry-After, a space, a body.
    static String proxy(List<String> keys, IntFunction<String> first) throws Exception {
        HttpClient on = HttpClient.newHttpClient();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            String answer = first.apply(keys.size());
            keys.add(String.valueOf(exchange.getRequestHeaders().getFirst("Idempotency-Key")));
            byte[] body = exchange.getRequestBody().readAllBytes();
            if ("stall".equals(answer)) {
                exchange.sendResponseHeaders(202, 1000);
                exchange.getResponseBody().write('{');
                exchange.getResponseBody().flush();
                return;
            }
            if (answer != null && !answer.isEmpty()) {
                String[] parts = answer.split(" ", 3);
                exchange.getResponseHeaders().set("Retry-After", parts[1]);
                if (parts[2].contains("title")) exchange.getResponseHeaders().set("Content-Type", "application/problem+json");
                exchange.sendResponseHeaders(Integer.parseInt(parts[0]), 0);
                exchange.getResponseBody().write(parts[2].getBytes());
                exchange.close();
                return;
            }
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(URL + exchange.getRequestURI()))
                .method(exchange.getRequestMethod(), HttpRequest.BodyPublishers.ofByteArray(body));
            for (String name : List.of("Authorization", "Idempotency-Key", "Content-Type")) {
                String value = exchange.getRequestHeaders().getFirst(name);
                if (value != null) request.header(name, value);
            }
            try {
                var real = on.send(request.build(), BodyHandlers.ofByteArray());
                real.headers().firstValue("Idempotent-Replayed")
                    .ifPresent(value -> exchange.getResponseHeaders().set("Idempotent-Replayed", value));
                real.headers().firstValue("Content-Type")
                    .ifPresent(value -> exchange.getResponseHeaders().set("Content-Type", value));
                if (answer == null) {
                    exchange.sendResponseHeaders(real.statusCode(), 0);
                    exchange.getResponseBody().write(real.body());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            exchange.close();
        });
        server.start();
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    static void json() {
        for (String good : List.of("{}", "[]", "null", "[1,-2,true,false,null,\"a\\u4e2d\\n\\\"\\\\\"]", "{\"a\":{\"b\":[{}]}}")) {
            check(Sluice.Json.write(Sluice.Json.read(good)).equals(good.replace("\\u4e2d", "\u4e2d").replace("\\n", "\\u000a")), good);
        }
        check(Sluice.Json.read(" [ 1.5 , 9007199254740993 ] ").equals(List.of(1.5, 9007199254740993L)));
        for (String bad : List.of("", "{", "[1", "\"a", "\"\\u12\"", "{\"a\"}", "[1]]", "nul", "[".repeat(100000), "{1:2}", "\"\\",
            "NaN", "0x1p3", "1d", "1.", "+1")) {
            try {
                Sluice.Json.read(bad);
            } catch (RuntimeException e) {
                continue;
            }
            throw new AssertionError("read: " + bad.substring(0, Math.min(bad.length(), 20)));
        }
    }

    static void keepsItsKey() throws Exception {
        String sale = sale(), key = Sluice.newKey();
        List<String> keys = new ArrayList<>();
        String[] steps = {"", "503 1 {\"code\":\"outcome_unknown\",\"title\":\"T\"}", "502 0 <h1>bad</h1>",
            "504 0 {\"code\":504}", "502 0 {\"code\":\"BadGateway\"}", "503 0 null", "200 0 null", "200 0 {}", "200 0 [1]",
            "429 1 {\"code\":\"rate_limited\",\"title\":\"T\"}"};
        Sluice far = new Sluice(proxy(keys, n -> n < steps.length ? steps[n] : null), KEY);
        Sluice.Claimed claimed = far.claim(sale, key, 1, token("bob"), null, null);
        check(claimed.replayed() && keys.size() == steps.length + 1 && keys.stream().allMatch(key::equals), claimed, keys);
        check(!shop.claim(sale, Sluice.newKey(), 1, token("bob"), null, null).replayed());
        check(refused(() -> shop.claim(sale, key, 2, token("bob"), null, null)).code.equals("idempotency_key_reused"));
        check(refused(() -> shop.claim(sale, Sluice.newKey(), 1, "x", null, null)).status == 401);
        check(refused(() -> shop.claim(sale, Sluice.newKey(), 99, token("bob"), null, null)).code.equals("insufficient"));
    }

    static void givesUp() throws Exception {
        String sale = sale(), key = Sluice.newKey();
        Sluice far = new Sluice(proxy(new ArrayList<>(), n -> ""), KEY, Duration.ofMillis(500));
        lost(() -> far.claim(sale, key, 1, token("carol"), null, null));
        check(shop.claim(sale, key, 1, token("carol"), null, null).replayed());
        Instant began = Instant.now();
        Sluice stalled = new Sluice(proxy(new ArrayList<>(), n -> "stall"), KEY, Duration.ofSeconds(1));
        lost(() -> stalled.claim(sale, Sluice.newKey(), 1, token("carol"), null, null));
        check(Duration.between(began, Instant.now()).toSeconds() < 10, "a claim waits for the rest of a body");
        // What a proxy says, or a server to an expired token, decides nothing about an earlier try.
        for (String answer : List.of("403 0 <h1>no</h1>", "413 0 <h1>no</h1>", "401 0 {\"code\":\"unauthenticated\",\"title\":\"T\"}")) {
            List<String> seen = new ArrayList<>();
            Sluice behind = new Sluice(proxy(seen, n -> n == 0 ? "" : answer), KEY);
            lost(() -> behind.claim(sale, Sluice.newKey(), 1, token("ivy"), null, null));
            check(seen.size() == 2, seen);
            check(refused(() -> behind.pay("ts.1", "p", 1, "CNY")).status == Integer.parseInt(answer.substring(0, 3)));
        }
        Sluice busy = new Sluice(proxy(new ArrayList<>(), n -> "503 60 {\"code\":\"overloaded\",\"title\":\"T\"}"), KEY);
        Sluice.Problem problem = refused(() -> busy.claim(sale, Sluice.newKey(), 1, token("carol"), null, null));
        check(problem.code.equals("overloaded") && problem.retryAfter.toSeconds() == 60, problem);
        check(problem.getMessage().equals("T (overloaded)"), problem);
    }

    static void changesOrders() throws Exception {
        String sale = sale();
        String[] ids = new String[4];
        for (int i = 0; i < ids.length; i++) ids[i] = shop.claim(sale, Sluice.newKey(), 2, token("dan"), null, null).order();
        List<String> seen = new ArrayList<>();
        Sluice far = new Sluice(proxy(seen, n -> n < 2 ? "" : null), KEY);
        Sluice.Order paid = far.pay(ids[0], "java-1", 3800, "CNY"); // two answers are lost
        check(paid.status().equals("paid") && paid.paymentId().equals("java-1") && seen.size() >= 3, paid, seen);
        check(refused(() -> shop.pay(ids[0], "java-2", 3800, "CNY")).code.equals("payment_conflict"));
        check(refused(() -> shop.pay(ids[1], "java-3", 38, "CNY")).code.equals("payment_amount"));
        check(shop.refund(ids[0]).status().equals("refunded"));
        Instant later = Instant.ofEpochMilli(Instant.now().plusSeconds(7200).toEpochMilli());
        check(Instant.parse((String) shop.extend(ids[1], later).json().get("expires_at")).equals(later));
        check(shop.cancel(ids[1]).status().equals("cancelled"));
        check(shop.reject(ids[2], "no \"stock\"").json().get("reason").equals("no \"stock\""));
        await(() -> shop.order(ids[3]).status().equals("pending"));
        List<String> all = new ArrayList<>();
        for (Sluice.Order order : shop.orders(sale, null)) all.add(order.id() + " " + order.buyer() + " " + order.amount());
        check(all.equals(Arrays.stream(ids).map(id -> id + " dan 3800").toList()), all);
        check(shop.orders(sale, "refunded").iterator().next().id().equals(ids[0]));
        String vip = sale("eligibility", "token");
        check(refused(() -> shop.claim(vip, Sluice.newKey(), 1, token("dan"), null, null)).body.get("reason").equals("not_eligible"));
        String invited = Sluice.buyerToken("dan", SECRET, Duration.ofHours(1), Map.of("sluice_sales", List.of(vip)));
        check(shop.claim(vip, Sluice.newKey(), 1, invited, null, null).order().startsWith(vip + "."));
    }

    static void passesAddressesOn() throws Exception {
        String sale = sale("address_rate", Map.of("requests", 1, "per_s", 3600));
        shop.claim(sale, Sluice.newKey(), 1, token("gil"), "192.0.2.1", null);
        String code = refused(() -> shop.claim(sale, Sluice.newKey(), 1, token("hal"), "192.0.2.1", null)).code;
        check(code.equals("rate_limited"), code);
        shop.claim(sale, Sluice.newKey(), 1, token("hal"), "192.0.2.2", null);
    }

    static void events() throws Exception {
        String order = shop.claim(sale(), Sluice.newKey(), 1, token("eve"), null, null).order();
        shop.pay(order, "java-eve", 1900, "CNY");
        List<Sluice.Event> seen = new ArrayList<>();
        Sluice far = new Sluice(proxy(new ArrayList<>(), n -> n == 0 ? "" : null), KEY);
        far.follow("", event -> {
            if (event.order() == null || !event.order().id().equals(order)) return true;
            seen.add(event);
            if (seen.size() == 2) shop.refund(order);
            return seen.size() < 3;
        });
        check(seen.stream().map(Sluice.Event::type).toList().equals(List.of("order.created", "order.paid", "order.refunded")), seen);
        List<String> fresh = new ArrayList<>();
        Sluice behind = new Sluice(proxy(fresh, n -> null), KEY); // once its first page has come, the rest is new
        Thread late = new Thread(() -> behind.follow("latest", event -> { fresh.add(event.type()); return false; }));
        late.start();
        await(() -> fresh.size() > 1);
        shop.claim(sale(), Sluice.newKey(), 1, token("eve"), null, null);
        late.join(30_000);
        check(fresh.get(fresh.size() - 1).contains("."), fresh);
        check(shop.events(seen.get(0).id(), 1000).stream().filter(e -> e.order() != null && e.order().id().equals(order)).count() == 2);
    }

    record Hook(Map<String, String> headers, byte[] body) {}

    static void webhook() throws Exception {
        BlockingQueue<Hook> got = new LinkedBlockingQueue<>();
        HttpServer receiver = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        receiver.createContext("/", exchange -> {
            Map<String, String> headers = new HashMap<>();
            exchange.getRequestHeaders().forEach((name, values) -> headers.put(name.toLowerCase(), values.get(0)));
            got.add(new Hook(headers, exchange.getRequestBody().readAllBytes()));
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        receiver.start();
        Map<String, Object> webhook = shop.ask("POST", "/v1/admin/webhooks", Map.of(
            "url", "http://127.0.0.1:" + receiver.getAddress().getPort() + "/", "types", List.of("order.created")));
        String secret = (String) webhook.get("secret");
        String order = shop.claim(sale(), Sluice.newKey(), 1, token("fay"), null, null).order();
        Hook hook = got.poll(30, TimeUnit.SECONDS);
        shop.ask("DELETE", "/v1/admin/webhooks/" + webhook.get("id"), null);
        Sluice.Event event = Sluice.verifyWebhook(secret, hook.headers()::get, hook.body());
        check(event.type().equals("order.created") && event.order().id().equals(order), event);
        byte[] forged = Arrays.copyOf(hook.body(), hook.body().length + 1);
        check(Sluice.verifyWebhook(secret, hook.headers()::get, forged) == null);
        for (String none : List.of("", "whsec_", "whsec_AA==", secret.substring(6))) {
            try {
                Sluice.verifyWebhook(none, hook.headers()::get, hook.body());
                check(false, "a secret that is none: " + none);
            } catch (IllegalArgumentException e) { /* as it should be */ }
        }
        check(Sluice.verifyWebhook("whsec_" + "A".repeat(32), hook.headers()::get, hook.body()) == null);
        check(Sluice.verifyWebhook(secret, name -> null, hook.body()) == null);
        for (int age : new int[] {0, 310, -310}) {
            String at = String.valueOf(Instant.now().getEpochSecond() - age), signed = sign(secret, "id." + at + ".{\"id\":\"evt_1\",\"seq\":1,\"type\":\"t\",\"data\":{}}");
            Map<String, String> headers = Map.of("webhook-id", "id", "webhook-timestamp", at, "webhook-signature", "v1,bm8= " + signed);
            Sluice.Event read = Sluice.verifyWebhook(secret, headers::get, "{\"id\":\"evt_1\",\"seq\":1,\"type\":\"t\",\"data\":{}}".getBytes());
            check((read != null) == (age == 0), age, read);
        }
    }

    static String sign(String secret, String text) throws Exception {
        var mac = javax.crypto.Mac.getInstance("HmacSHA256");
        mac.init(new javax.crypto.spec.SecretKeySpec(java.util.Base64.getDecoder().decode(secret.substring(6)), "HmacSHA256"));
        return "v1," + java.util.Base64.getEncoder().encodeToString(mac.doFinal(text.getBytes()));
    }
}
