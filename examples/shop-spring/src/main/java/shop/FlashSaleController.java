package shop;

import java.security.Principal;
import java.util.Map;
import org.springframework.http.HttpHeaders;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** The routes of {@link FlashSale}. With Spring Security let the two POSTs in without login and without CSRF token. */
@RestController
public class FlashSaleController {
    private final FlashSale sale;

    public FlashSaleController(FlashSale sale) { this.sale = sale; }

    @GetMapping("/sluice-token")
    public ResponseEntity<String> token(Principal buyer) {
        if (buyer == null) return ResponseEntity.status(401).build();
        return ResponseEntity.ok().header("Cache-Control", "no-store").body(sale.token(buyer.getName()));
    }

    @PostMapping("/hooks/sluice")
    public ResponseEntity<Void> webhook(@RequestHeader HttpHeaders headers, @RequestBody byte[] body) {
        return ResponseEntity.status(sale.webhookStatus(headers::getFirst, body)).build();
    }

    @PostMapping("/payments/callback")
    public ResponseEntity<Void> payment(@RequestParam Map<String, String> callback) {
        return ResponseEntity.status(sale.paymentStatus(callback)).build();
    }
}
