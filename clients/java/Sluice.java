package sluice;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A Sluice server, for a shop's backend. Copy this file: it needs Java 17 and nothing else. It is safe for
 * concurrent use. Calls throw {@link Problem} for what the server refused, {@link Lost} when no usable answer came.
 * JSON is maps, lists, strings, longs, doubles, booleans and nulls.
 */
public final class Sluice {
    private static final Duration LONGEST = Duration.ofSeconds(10);
    private final String url;
    private final String adminKey;
    private final Duration patience;
    private final Duration timeout; // of one request, from its first byte to the answer's last
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5))
        .followRedirects(HttpClient.Redirect.NEVER).build(); // they would take the key and orders elsewhere

    /** The admin key is the merchant's; null if only buyers' calls are made. */
    public Sluice(String url, String adminKey) { this(url, adminKey, Duration.ofSeconds(30)); }

    /** Patience is how long a call is repeated while it is not known to be done. */
    public Sluice(String url, String adminKey, Duration patience) {
        this.url = url.replaceAll("/+$", "");
        this.adminKey = adminKey;
        this.patience = patience;
        this.timeout = patience.compareTo(LONGEST) < 0 ? patience : LONGEST;
    }

    /** What the server refused. The code says why: docs/codes.md. */
    public static final class Problem extends RuntimeException {
        public final int status;
        public final String code;
        public final Duration retryAfter; // zero: the server does not say
        public final Map<String, Object> body;

        Problem(int status, Map<String, Object> body, Duration retryAfter) {
            super(body.getOrDefault("detail", body.getOrDefault("title", "refused"))
                + " (" + body.getOrDefault("code", "HTTP " + status) + ")");
            this.status = status;
            this.code = (String) body.getOrDefault("code", "");
            this.retryAfter = retryAfter;
            this.body = body;
        }
    }

    /** Whether the server has done what was asked is unknown. After a claim: claim again with the same key. */
    public static final class Lost extends RuntimeException {
        Lost(String message, Throwable cause) { super(message, cause); }
    }

    /** An order; its other fields are in the JSON. An amount is in minor units. */
    public record Order(String id, String sale, String buyer, long quantity, String status, long amount,
                        String currency, String paymentId, Map<String, Object> json) {
        static Order of(Map<String, Object> json) {
            if (!(json.get("order_id") instanceof String)) throw new Lost("the answer names no order", null);
            return new Order((String) json.get("order_id"), (String) json.get("sale_id"), (String) json.get("buyer_id"),
                (long) json.get("quantity"), (String) json.get("status"), (long) json.get("amount"),
                (String) json.get("currency"), (String) json.get("payment_id"), json);
        }
    }

    /** An event of an order, or, if that is null, of the sale in its JSON (data). */
    public record Event(String id, long seq, String type, Order order, Map<String, Object> json) {
        static Event of(Map<String, Object> json) {
            Map<String, Object> order = object(object(json.get("data")).get("order"));
            return new Event((String) json.get("id"), (long) json.get("seq"), (String) json.get("type"),
                order == null ? null : Order.of(order), json);
        }
    }

    /** An accepted claim. If it is replayed, read the order: it may have ended since. */
    public record Claimed(String order, boolean replayed) {}

    // ---- what needs no server

    /** A token of a buyer of yours (the account's number, 1 to 128 bytes), signed with the buyer secret. */
    public static String buyerToken(String buyer, String secret, Duration life) {
        return buyerToken(buyer, secret, life, Map.of());
    }

    /** More claims are, for instance, iss, aud, sluice_sales (a list of sales that invite the buyer), and household. */
    public static String buyerToken(String buyer, String secret, Duration life, Map<String, ?> more) {
        if (buyer.isEmpty() || secret.isEmpty()) throw new IllegalArgumentException("want a buyer and the secret");
        Map<String, Object> claims = new LinkedHashMap<>(more);
        long now = Instant.now().getEpochSecond();
        claims.putAll(Map.of("sub", buyer, "iat", now, "exp", now + life.toSeconds()));
        Base64.Encoder base64 = Base64.getUrlEncoder().withoutPadding();
        String body = base64.encodeToString("{\"alg\":\"HS256\",\"typ\":\"JWT\"}".getBytes(UTF_8)) + "."
            + base64.encodeToString(Json.write(claims).getBytes(UTF_8));
        return body + "." + base64.encodeToString(hmac(secret.getBytes(UTF_8), body.getBytes(UTF_8)));
    }

    /**
     * The event of a webhook's request, or null if it is not from your server, or older than five minutes. Header
     * returns one of the request; body is the raw body.
     */
    public static Event verifyWebhook(String secret, Function<String, String> header, byte[] body) {
        String id = header.apply("webhook-id"), at = header.apply("webhook-timestamp");
        String signatures = header.apply("webhook-signature");
        if (id == null || at == null || signatures == null || !at.matches("[0-9]{1,12}")
            || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(at)) > 300) return null;
        byte[] key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
        if (!secret.startsWith("whsec_") || key.length < 24) {
            throw new IllegalArgumentException("want the secret: whsec_ and base64 of 24 bytes or more");
        }
        String want = "v1," + Base64.getEncoder().encodeToString(hmac(key, (id + "." + at + ".").getBytes(UTF_8), body));
        boolean ours = false;
        for (String got : signatures.split(" ")) ours |= MessageDigest.isEqual(want.getBytes(UTF_8), got.getBytes(UTF_8));
        return ours ? Event.of(object(Json.read(new String(body, UTF_8)))) : null;
    }

    /** A new Idempotency-Key: save it before you claim. */
    public static String newKey() {
        byte[] random = new byte[18];
        new SecureRandom().nextBytes(random);
        return Base64.getUrlEncoder().encodeToString(random);
    }

    private static byte[] hmac(byte[] key, byte[]... parts) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            for (byte[] part : parts) mac.update(part);
            return mac.doFinal();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    // ---- for a buyer

    /**
     * Claims units. While nothing is decided it sends the same key again: whatever gets lost, it is one purchase.
     * The address is the buyer's, for limits by address: the server trusts it if this backend is among its
     * trusted_proxies. The ticket is for sales that ask for one. Both may be null.
     */
    public Claimed claim(String sale, String key, long quantity, String token, String address, String ticket) {
        Map<String, String> headers = new LinkedHashMap<>(Map.of("Idempotency-Key", key));
        if (address != null) headers.put("X-Forwarded-For", address);
        if (ticket != null) headers.put("Sluice-Ticket", ticket);
        String path = "/v1/sales/" + escape(sale) + "/orders";
        return repeat(() -> {
            HttpResponse<String> answer = send("POST", path, token, headers, Map.of("quantity", quantity));
            if (!(object(Json.read(answer.body())).get("order_id") instanceof String order)) {
                throw new Lost("the answer names no order", null);
            }
            return new Claimed(order, answer.headers().firstValue("Idempotent-Replayed").isPresent());
        });
    }

    /** A sale as buyers see it: state, available, opens_at and so on. */
    public Map<String, Object> sale(String sale) { return ask("GET", "/v1/sales/" + escape(sale), null); }

    // ---- for the merchant

    public Order order(String id) { return Order.of(ask("GET", orderPath(id), null)); }

    /** Records a payment. Look at the status: paid, or refund_due if it came too late. */
    public Order pay(String id, String paymentId, long amount, String currency) {
        return change(id, "pay", Map.of("payment_id", paymentId, "amount", amount, "currency", currency));
    }

    public Order cancel(String id) { return change(id, "cancel", Map.of()); }

    public Order reject(String id, String reason) { return change(id, "reject", Map.of("reason", reason)); }

    public Order refund(String id) { return change(id, "refund", Map.of()); }

    public Order extend(String id, Instant until) { return change(id, "extend", Map.of("expires_at", until.toString())); }

    /** A page of at most 1000 events after the one with this id; "": from the first one that is kept. */
    public List<Event> events(String after, int limit) {
        List<Event> events = new ArrayList<>();
        for (Object event : (List<?>) eventPage(after, limit).get("events")) events.add(Event.of(object(event)));
        return events;
    }

    private Map<String, Object> eventPage(String after, int limit) {
        return ask("GET", "/v1/admin/events?limit=" + limit + (after.isEmpty() ? "" : "&after=" + escape(after)), null);
    }

    /**
     * Hands over every event after the one with this id ("latest": only new ones), in order, and waits for more, until the handler returns
     * false or the thread is interrupted. Save the id with what you make of the event, and follow from there.
     */
    public void follow(String after, Predicate<Event> handler) {
        for (String last = after; !Thread.currentThread().isInterrupted(); ) {
            Map<String, Object> page;
            try {
                page = eventPage(last, 1000);
            } catch (RuntimeException e) {
                if (!passing(e)) throw e;
                if (!sleep(Duration.ofSeconds(5))) return;
                continue;
            }
            List<?> events = (List<?>) page.get("events");
            for (Object event : events) if (!handler.test(Event.of(object(event)))) return;
            last = (String) page.get("next");
            if (events.size() < 1000 && !sleep(Duration.ofSeconds(1))) return;
        }
    }

    /** The stored orders of a sale, oldest first, of a status or (null) of any. It asks as it goes. */
    public Iterable<Order> orders(String sale, String status) {
        String path = "/v1/admin/orders?limit=1000&sale=" + escape(sale) + (status == null ? "" : "&status=" + status);
        return () -> new Iterator<>() {
            private Iterator<?> page = List.of().iterator();
            private String cursor = "";

            @Override public boolean hasNext() {
                while (!page.hasNext() && cursor != null) {
                    Map<String, Object> next = ask("GET", path + "&cursor=" + escape(cursor), null);
                    page = ((List<?>) next.get("orders")).iterator();
                    cursor = next.get("next_cursor").equals("") ? null : (String) next.get("next_cursor");
                }
                return page.hasNext();
            }

            @Override public Order next() {
                hasNext();
                return Order.of(object(page.next()));
            }
        };
    }

    /** Any request of the merchant's half, sent once; the body is null for none. */
    public Map<String, Object> ask(String method, String path, Map<String, ?> body) {
        return object(Json.read(send(method, path, adminKey, Map.of(), body).body()));
    }

    private Order change(String id, String action, Map<String, ?> body) {
        String path = orderPath(id) + "/" + action;
        return repeat(() -> Order.of(object(Json.read(send("POST", path, adminKey, Map.of(), body).body()))));
    }

    // ---- requests

    private static String escape(String text) { return URLEncoder.encode(text, UTF_8).replace("+", "%20"); }

    private static String orderPath(String id) { return "/v1/admin/orders/" + escape(id); }

    /** Sends the same request again as long as its answer says, or could mean, that nothing is decided. */
    private <T> T repeat(Supplier<T> request) {
        Instant until = Instant.now().plus(patience);
        boolean unknown = false;
        for (int tries = 0; ; tries++) {
            RuntimeException error;
            try {
                return request.get();
            } catch (RuntimeException e) {
                error = e;
            }
            if (!passing(error)) throw unknown && !looked((Problem) error) ? lost(error) : error;
            unknown |= error instanceof Lost || ((Problem) error).code.equals("outcome_unknown");
            long wait = Math.min(200L << Math.min(tries, 5), 5000);
            wait = wait / 2 + ThreadLocalRandom.current().nextLong(wait / 2 + 1); // a crowd must not return in step
            if (error instanceof Problem p) wait += p.retryAfter.toMillis();
            if (Instant.now().plusMillis(wait).isAfter(until) || !sleep(Duration.ofMillis(wait))) {
                throw unknown ? lost(error) : error;
            }
        }
    }

    private static Lost lost(RuntimeException cause) {
        return new Lost("the outcome is unknown; the same request gets the same answer", cause);
    }

    /** Whether an answer is of one who knows of earlier tries: not a proxy's, nor to a token that has expired since. */
    private static boolean looked(Problem p) { return !p.code.isEmpty() && p.status != 401; }

    /** Whether the same request may be sent again. */
    private static boolean passing(RuntimeException e) {
        return e instanceof Lost
            || e instanceof Problem p && (p.status >= 500 || p.status == 429 || p.code.equals("order_queued"));
    }

    private HttpResponse<String> send(String method, String path, String bearer, Map<String, String> headers,
                                      Map<String, ?> body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
            .header("Accept", "application/json").method(method, body == null ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(Json.write(body)));
        if (body != null) request.header("Content-Type", "application/json");
        if (bearer != null) request.header("Authorization", "Bearer " + bearer);
        headers.forEach(request::header);
        // The timeout of a request ends with the headers of its answer: the body has none.
        CompletableFuture<HttpResponse<String>> coming = http.sendAsync(request.build(), BodyHandlers.ofString());
        HttpResponse<String> answer;
        try {
            answer = coming.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            coming.cancel(true);
            Thread.currentThread().interrupt();
            throw new Lost("interrupted", e);
        } catch (TimeoutException e) {
            coming.cancel(true);
            throw new Lost("no answer from " + url + " within " + timeout.toMillis() + " ms", e);
        } catch (ExecutionException e) {
            throw new Lost("no answer from " + url + ": " + e.getCause(), e.getCause());
        }
        int status = answer.statusCode();
        Object said = null;
        try {
            said = Json.read(answer.body());
        } catch (Json.Malformed e) {
            if (status < 400 || status >= 500) {
                throw new Lost("the answer of " + url + " is no JSON; is this a Sluice server?", e);
            }
        }
        if (status < 300 && said instanceof Map<?, ?>) return answer;
        Map<String, Object> problem = Map.of(); // what a gateway says has codes of its own
        if (said instanceof Map<?, ?> map && map.get("code") instanceof String
            && answer.headers().firstValue("Content-Type").orElse("").startsWith("application/problem+json")) {
            problem = object(said);
        }
        // A proxy's 502 or 504: the server behind it may have decided.
        if (status < 300 || status >= 500 && problem.isEmpty()) throw new Lost("HTTP " + status + " from " + url, null);
        String after = answer.headers().firstValue("Retry-After").filter(s -> s.matches("[0-9]{1,5}")).orElse("0");
        throw new Problem(status, problem, Duration.ofSeconds(Long.parseLong(after)));
    }

    /** Returns false if the thread was interrupted. */
    private static boolean sleep(Duration time) {
        try {
            Thread.sleep(time.toMillis());
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object json) { return (Map<String, Object>) json; }

    /** JSON, as far as the API needs it. */
    public static final class Json {
        private static final int DEEPEST = 64;
        private final String text;
        private int at;

        private Json(String text) { this.text = text; }

        static final class Malformed extends RuntimeException {
            Malformed(String message) { super(message); }
        }

        public static Object read(String text) {
            Json json = new Json(text);
            Object value = json.value(0);
            if (json.peek() != 0) throw json.malformed();
            return value;
        }

        private Malformed malformed() { return new Malformed("not JSON at character " + at); }

        /** The next character that is not white space; 0: there is none. */
        private char peek() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean take(char c) {
            if (peek() != c) return false;
            at++;
            return true;
        }

        private void want(char c) {
            if (!take(c)) throw malformed();
        }

        private Object value(int depth) {
            if (depth > DEEPEST) throw malformed();
            switch (peek()) {
                case '{' -> {
                    Map<String, Object> map = new LinkedHashMap<>();
                    want('{');
                    if (take('}')) return map;
                    do {
                        if (peek() != '"') throw malformed();
                        String name = string();
                        want(':');
                        map.put(name, value(depth + 1));
                    } while (take(','));
                    want('}');
                    return map;
                }
                case '[' -> {
                    List<Object> list = new ArrayList<>();
                    want('[');
                    if (take(']')) return list;
                    do list.add(value(depth + 1)); while (take(','));
                    want(']');
                    return list;
                }
                case '"' -> { return string(); }
                default -> { return word(); }
            }
        }

        private Object word() {
            int from = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(from, at);
            try {
                return switch (word) {
                    case "true" -> true;
                    case "false" -> false;
                    case "null" -> null;
                    default -> {
                        if (!word.matches("-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw malformed();
                        yield word.matches("-?[0-9]+") ? (Object) Long.parseLong(word) : (Object) Double.parseDouble(word);
                    }
                };
            } catch (NumberFormatException e) {
                throw malformed();
            }
        }

        private String string() {
            StringBuilder made = new StringBuilder();
            for (at++; at < text.length(); at++) {
                char c = text.charAt(at);
                if (c == '"') {
                    at++;
                    return made.toString();
                }
                if (c != '\\') {
                    made.append(c);
                    continue;
                }
                if (++at >= text.length()) break;
                switch (c = text.charAt(at)) {
                    case 'n' -> made.append('\n');
                    case 't' -> made.append('\t');
                    case 'r' -> made.append('\r');
                    case 'b' -> made.append('\b');
                    case 'f' -> made.append('\f');
                    case 'u' -> {
                        if (at + 4 >= text.length() || !text.substring(at + 1, at + 5).matches("[0-9a-fA-F]{4}")) {
                            throw malformed();
                        }
                        made.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                        at += 4;
                    }
                    default -> made.append(c);
                }
            }
            throw malformed();
        }

        public static String write(Object value) {
            StringBuilder out = new StringBuilder();
            write(value, out);
            return out.toString();
        }

        private static void write(Object value, StringBuilder out) {
            if (value instanceof Map<?, ?> map) {
                String before = "{";
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    write(entry.getKey().toString(), out.append(before));
                    write(entry.getValue(), out.append(':'));
                    before = ",";
                }
                out.append(map.isEmpty() ? "{}" : "}");
            } else if (value instanceof Iterable<?> list) {
                String before = "[";
                for (Object element : list) {
                    write(element, out.append(before));
                    before = ",";
                }
                out.append(before.equals("[") ? "[]" : "]");
            } else if (value == null || value instanceof Number || value instanceof Boolean) {
                out.append(value);
            } else {
                out.append('"');
                for (char c : value.toString().toCharArray()) {
                    if (c == '"' || c == '\\') out.append('\\').append(c);
                    else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
                    else out.append(c);
                }
                out.append('"');
            }
        }
    }
}
