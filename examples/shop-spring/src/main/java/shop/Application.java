package shop;

import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import sluice.Sluice;

/** Starts the routes beside a shop of your own; the one here believes no callback. */
@SpringBootApplication
public class Application {
    public static void main(String[] args) { SpringApplication.run(Application.class, args); }

    @Bean
    FlashSale flashSale(Shop shop) {
        Map<String, String> env = System.getenv();
        return new FlashSale(new Sluice(env.get("SLUICE_URL"), env.get("SLUICE_ADMIN_KEY")),
            env.get("SLUICE_BUYER_SECRET"), env.get("SLUICE_WEBHOOK_SECRET"), shop);
    }

    @Bean
    Shop shop() {
        return new Shop() {
            @Override public void orderChanged(Sluice.Order order, long seq) {
                System.out.println(seq + " " + order.id() + " " + order.status());
            }

            @Override public boolean isGenuine(Map<String, String> callback) { return false; }

            @Override public void giveBack(String payment) { System.out.println("give back " + payment); }

            @Override public void review(String payment, String code) { System.out.println(payment + ": " + code); }
        };
    }
}
