package shop;

import java.time.Duration;
import java.util.Map;
import java.util.function.Function;
import sluice.Sluice;

/** What a shop does beside Sluice, without Spring. Methods that end in a status return the answer's HTTP status. */
public final class FlashSale {
    private final Sluice sluice;
    private final String buyerSecret;
    private final String webhookSecret;
    private final Shop shop;

    public FlashSale(Sluice sluice, String buyerSecret, String webhookSecret, Shop shop) {
        this.sluice = sluice;
        this.buyerSecret = buyerSecret;
        this.webhookSecret = webhookSecret;
        this.shop = shop;
    }

    /** An hour's token for the page of a buyer who is signed in under this account. */
    public String token(String account) {
        return Sluice.buyerToken(account, buyerSecret, Duration.ofHours(1));
    }

    /** A webhook's request, with its raw body. Sluice sends it again unless the status is 2xx. */
    public int webhookStatus(Function<String, String> header, byte[] body) {
        Sluice.Event event = Sluice.verifyWebhook(webhookSecret, header, body);
        if (event == null) return 401; // not from your server, or older than five minutes
        if (event.order() != null) shop.orderChanged(event.order(), event.seq());
        return 204;
    }

    /** The payment provider's callback. The provider sends it again unless the status is 2xx. */
    public int paymentStatus(Map<String, String> callback) {
        if (!shop.isGenuine(callback)) return 401;
        String order = callback.get("order"), payment = callback.get("payment");
        try {
            long amount = Long.parseLong(callback.get("amount")); // in minor units
            Sluice.Order now = sluice.pay(order, payment, amount, callback.get("currency"));
            if (now.status().equals("refund_due")) { // it came too late: the unit may be another buyer's
                shop.giveBack(payment);
                sluice.refund(order);
            }
        } catch (Sluice.Lost e) {
            return 503; // it is not known whether the payment is recorded
        } catch (Sluice.Problem e) {
            if (e.status >= 500 || e.status == 429 || e.code.equals("order_queued")) return 503;
            shop.review(payment, e.code);
        }
        return 204;
    }
}
