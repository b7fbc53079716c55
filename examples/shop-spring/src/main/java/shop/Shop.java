package shop;

import java.util.Map;
import sluice.Sluice;

/** What the shop has already: put your own services behind it. */
public interface Shop {
    /** Writes an order's state into the shop's table, unless a later event (a greater seq) has been there. */
    void orderChanged(Sluice.Order order, long seq);

    /** Whether a callback is the payment provider's: its signature, by the provider's own library. */
    boolean isGenuine(Map<String, String> callback);

    /** Gives the money of a payment back; the same payment once, however often it is called. */
    void giveBack(String payment);

    /** A payment that a person has to look at, and why: docs/integrate.md says what each code asks for. */
    void review(String payment, String code);
}
