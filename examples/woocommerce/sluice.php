<?php
/**
 * Plugin Name: Sluice sales
 * Description: Sells products of this shop in flash sales by Sluice; docs/beside-a-shop.md says how to set it up.
 * Version: 1.0
 * Requires PHP: 7.4
 * Requires Plugins: woocommerce
 * License: Apache-2.0
 *
 * wp-config.php defines SLUICE_PAGES, SLUICE_ADMIN_URL, SLUICE_ADMIN_KEY, SLUICE_BUYER_SECRET,
 * SLUICE_WEBHOOK_SECRET and SLUICE_GUESTS.
 */

defined('ABSPATH') || exit;

// --- Buyers: who they are, and how they get to the page of a sale.

/** The id of this visitor at Sluice, or '' if they have to log in first. */
function sluice_buyer(): string {
	if (is_user_logged_in()) {
		return 'user-' . get_current_user_id();
	}
	if (!SLUICE_GUESTS) {
		return '';
	}
	$guest = sluice_guest();
	if ($guest === '') {
		$guest = bin2hex(random_bytes(16));
		setcookie('sluice_guest', $guest, array(
			'expires' => time() + 30 * 86400, 'path' => '/', 'secure' => is_ssl(), 'httponly' => true, 'samesite' => 'Lax',
		));
	}
	return 'guest-' . $guest;
}

/** The random number that a guest's browser keeps, or ''. */
function sluice_guest(): string {
	$guest = $_COOKIE['sluice_guest'] ?? '';
	return is_string($guest) && preg_match('/^[0-9a-f]{32}$/D', $guest) ? $guest : '';
}

function sluice_is_mine(string $buyer): bool {
	return (is_user_logged_in() && $buyer === 'user-' . get_current_user_id()) ||
		(sluice_guest() !== '' && $buyer === 'guest-' . sluice_guest());
}

/** A token for one hour: JWT, HS256. */
function sluice_token(string $buyer): string {
	$b64 = function (string $data): string {
		return rtrim(strtr(base64_encode($data), '+/', '-_'), '=');
	};
	$claims = json_encode(array('sub' => $buyer, 'iat' => time(), 'exp' => time() + 3600));
	$body = $b64('{"alg":"HS256","typ":"JWT"}') . '.' . $b64($claims);
	return $body . '.' . $b64(hash_hmac('sha256', $body, SLUICE_BUYER_SECRET, true));
}

/** The product's page links to the sale. The link is the same for every visitor, so a cache may keep the page. */
add_action('woocommerce_single_product_summary', function () {
	$sale = get_post_meta(get_the_ID(), 'sluice_sale', true);
	if ($sale) {
		printf('<p><a class="button alt" href="%s">%s</a></p>',
			esc_url(SLUICE_PAGES . '/s/' . $sale), esc_html__('To the sale', 'sluice'));
	}
}, 30);

/** A product in a sale cannot be put into the cart: Sluice sells it. */
add_filter('woocommerce_is_purchasable', function ($is, $product) {
	return $is && !$product->get_meta('sluice_sale');
}, 10, 2);

/** Sluice's pages send buyers here: login_url and pay_url of the server. */
add_action('template_redirect', function () {
	if (isset($_GET['sluice_login'])) {
		sluice_login((string) wp_unslash($_GET['sluice_login']));
	} elseif (isset($_GET['sluice_pay'])) {
		sluice_pay((string) wp_unslash($_GET['sluice_pay']));
	}
}, 1);

/** Sends the buyer back with a token, in the fragment: browsers send that to no server, so no log has it. */
function sluice_login(string $return) {
	nocache_headers();
	if (strpos($return, SLUICE_PAGES . '/') !== 0) { // any other address would get the buyer's token
		wp_die('Not a page of the sale.', '', array('response' => 400));
	}
	$buyer = sluice_buyer();
	if ($buyer === '') {
		wp_safe_redirect(wp_login_url(home_url('/?sluice_login=' . rawurlencode($return))));
	} else {
		wp_redirect($return . '#token=' . sluice_token($buyer), 303);
	}
	exit;
}

/** Sends the buyer to the shop's payment page of an order. */
function sluice_pay(string $id) {
	nocache_headers();
	// The id of an order, from one who can have one: strangers keep no process of this server waiting.
	$known = is_user_logged_in() || sluice_guest() !== '';
	if (!$known || !preg_match('/^[a-z0-9][a-z0-9_-]{0,47}\.[0-9a-f]{32}$/D', $id)) {
		wp_die('No such order.', '', array('response' => 404));
	}
	list(, $o) = sluice_api('GET', "/v1/admin/orders/$id");
	if (!sluice_judged($id, $o) || ($o['status'] ?? '') === 'queued') {
		wp_die('One moment, please: reload this page.', '', array('response' => 503));
	}
	if (!isset($o['order_id']) || !sluice_is_mine($o['buyer_id'])) {
		wp_die('No such order.', '', array('response' => 404));
	}
	wp_redirect($o['status'] === 'pending'
		? sluice_order($o)->get_checkout_payment_url()
		: SLUICE_PAGES . "/o/$id", 303);
	exit;
}

// --- Orders: one of the shop for each of Sluice.

/** The status and the body of an answer of the merchant's API; the status is 0 if there is no answer. */
function sluice_api(string $method, string $path, ?array $body = null): array {
	$answer = wp_remote_request(SLUICE_ADMIN_URL . $path, array(
		'method' => $method, 'timeout' => 10, 'redirection' => 0, 'body' => $body === null ? null : wp_json_encode($body),
		'headers' => array('Authorization' => 'Bearer ' . SLUICE_ADMIN_KEY, 'Content-Type' => 'application/json'),
	));
	return array((int) wp_remote_retrieve_response_code($answer), json_decode(wp_remote_retrieve_body($answer), true));
}

/** Whether an answer is Sluice's word on this order, and not a wrong key's, or "later". */
function sluice_judged(string $id, $answer): bool {
	return $id === ($answer['order_id'] ?? '') || in_array($answer['code'] ?? '', array(
		'payment_amount', 'payment_conflict', 'order_ended', 'order_not_found', 'gone', 'bad_request',
	), true);
}

/** How many digits a currency has behind the point (ISO 4217): Sluice counts 3800 where WooCommerce has 38.00. */
function sluice_digits(string $currency): int {
	$unusual = array(
		0 => 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
		3 => 'BHD IQD JOD KWD LYD OMR TND',
		4 => 'CLF UYW',
	);
	foreach ($unusual as $digits => $currencies) {
		if (in_array($currency, explode(' ', $currencies), true)) {
			return $digits;
		}
	}
	return 2;
}

/** The shop's order for an order of Sluice: made once, however many ask for it at the same time. */
function sluice_order(array $o): WC_Order {
	global $wpdb;
	$lock = 'sluice_' . md5($o['order_id']);
	if ($wpdb->get_var($wpdb->prepare('SELECT GET_LOCK(%s, 10)', $lock)) !== '1') {
		throw new RuntimeException('another process makes this order');
	}
	try {
		$found = wc_get_orders(array('limit' => 1, 'meta_key' => '_sluice_order', 'meta_value' => $o['order_id']));
		$order = $found ? $found[0] : new WC_Order();
		if ($found && $order->get_items()) {
			return $order;
		}
		$products = get_posts(array('post_type' => 'product', 'post_status' => 'any', 'fields' => 'ids',
			'meta_key' => 'sluice_sale', 'meta_value' => $o['sale_id']));
		if (count($products) !== 1) {
			throw new RuntimeException(count($products) . ' products have the custom field sluice_sale ' . $o['sale_id']);
		}
		if (!$found) { // otherwise a process died before it added the product
			$order->add_meta_data('_sluice_order', $o['order_id'], true);
			$order->set_created_via('sluice'); // WooCommerce cancels unpaid orders of its own checkout only
			$order->set_currency($o['currency']);
			if (preg_match('/^user-(\d+)$/D', $o['buyer_id'], $m)) {
				$customer = new WC_Customer((int) $m[1]);
				$order->set_customer_id((int) $m[1]);
				$order->set_address($customer->get_billing(), 'billing');
				$order->set_address($customer->get_shipping(), 'shipping');
			}
			$order->save();
		}
		$digits = sluice_digits($o['currency']);
		$total = number_format($o['amount'] / 10 ** $digits, $digits, '.', '');
		$order->add_product(wc_get_product($products[0]), $o['quantity'], array('subtotal' => $total, 'total' => $total));
		$order->calculate_totals(false); // the price of the sale is what the buyer pays; no taxes on top
		return $order;
	} finally {
		$wpdb->get_var($wpdb->prepare('SELECT RELEASE_LOCK(%s)', $lock));
	}
}

/** Units of a sale are not in WooCommerce's stock: their orders neither take any from it nor need any there. */
add_filter('woocommerce_can_reduce_order_stock', function ($can, $order) {
	return $can && !$order->get_meta('_sluice_order');
}, 10, 2);
foreach (array('woocommerce_pay_order_product_in_stock', 'woocommerce_pay_order_product_has_enough_stock') as $check) {
	add_filter($check, function ($has, $product, $order) {
		return $has || $order->get_meta('_sluice_order');
	}, 10, 3);
}

/** A buyer without an address enters it on the payment page. */
add_action('woocommerce_pay_order_before_submit', function () {
	$order = wc_get_order(absint(get_query_var('order-pay')));
	if ($order && $order->get_meta('_sluice_order') && !$order->get_billing_email()) {
		foreach (WC()->countries->get_address_fields('', 'billing_') as $name => $field) {
			woocommerce_form_field($name, $field);
		}
	}
});
add_action('woocommerce_before_pay_action', function ($order) {
	if (!$order->get_meta('_sluice_order') || $order->get_billing_email()) {
		return;
	}
	try {
		foreach (WC()->countries->get_address_fields('', 'billing_') as $name => $field) {
			$value = wc_clean(wp_unslash($_POST[$name] ?? ''));
			if ($value === '' && !empty($field['required'])) {
				throw new RuntimeException($field['label'] . ' is missing.');
			}
			if (is_callable(array($order, "set_$name"))) {
				$order->{"set_$name"}($value);
			}
		}
		$order->save();
	} catch (Exception $e) {
		wc_add_notice(esc_html($e->getMessage()), 'error'); // and nothing is paid
	}
});

// --- From the shop to Sluice: paid, cancelled, refunded.

add_action('woocommerce_order_status_changed', 'sluice_report');
add_action('sluice_report', 'sluice_report');

/** Reports what became of the shop's order. Repeats do no harm, so it repeats until Sluice has judged. */
function sluice_report($order_id) {
	$order = wc_get_order($order_id);
	$id = $order ? $order->get_meta('_sluice_order') : '';
	$body = null;
	if (!$id) {
		return;
	} elseif ($order->is_paid()) {
		if ($order->get_meta('_sluice_paid')) {
			return; // from processing to completed
		}
		$action = 'pay';
		$payment = $order->get_meta('_sluice_payment');
		if (!$payment) { // gateways change the transaction's id; at Sluice another id is another payment
			$payment = $order->get_transaction_id() ?: 'wc-' . $order_id;
			$order->update_meta_data('_sluice_payment', $payment);
			$order->save();
		}
		$body = array(
			'payment_id' => $payment,
			'amount' => (int) round($order->get_total() * 10 ** sluice_digits($order->get_currency())),
			'currency' => $order->get_currency(),
		);
	} elseif ($order->has_status('refunded')) {
		$action = 'refund';
	} elseif ($order->has_status('cancelled')) {
		$action = 'cancel';
	} else {
		return;
	}
	as_schedule_single_action(time() + 60, 'sluice_report', array($order_id)); // this process may die before the answer
	list($status, $answer) = sluice_api('POST', '/v1/admin/orders/' . rawurlencode($id) . '/' . $action, $body);
	if (!sluice_judged($id, $answer)) {
		return; // in a minute again
	}
	$verdict = $answer['code'] ?? $answer['status'];
	if ($verdict === 'paid' && $action === 'pay') {
		$order->update_meta_data('_sluice_paid', $payment);
		$order->save();
	} elseif ($action === 'pay') {
		// Too late, another amount, or a second payment: the units are not this buyer's, or not yet.
		if ($status !== 200) {
			$order->delete_meta_data('_sluice_payment'); // refused, so the next payment has an id of its own
		}
		$order->update_status('on-hold', "Sluice: $verdict. Do not deliver; refund this payment.");
	} elseif ($status !== 200) {
		$order->add_order_note("Sluice does not $action the order: $verdict." . ($order->get_meta('_sluice_paid')
			? ' It stays paid there, with its units, until it is refunded.' : ''));
	} elseif ($action === 'refund') {
		$order->delete_meta_data('_sluice_paid'); // to report it if the order becomes paid again, which is too late
		$order->save();
	}
	as_unschedule_all_actions('sluice_report', array($order_id)); // last: this process may die before
}

// --- From Sluice to the shop: the webhook.

add_action('rest_api_init', function () {
	register_rest_route('sluice/v1', '/events', array(
		'methods' => 'POST', 'callback' => 'sluice_event', 'permission_callback' => '__return_true', // it is signed
	));
});

/** Whether the request is from Sluice: https://www.standardwebhooks.com. */
function sluice_is_signed(WP_REST_Request $request): bool {
	$id = (string) $request->get_header('webhook-id');
	$at = (string) $request->get_header('webhook-timestamp');
	$key = base64_decode(substr(SLUICE_WEBHOOK_SECRET, strlen('whsec_')));
	$want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at." . $request->get_body(), $key, true));
	$is = false;
	foreach (explode(' ', (string) $request->get_header('webhook-signature')) as $signature) {
		$is = hash_equals($want, $signature) || $is;
	}
	return $is && abs(time() - (int) $at) <= 300;
}

/** An event may come twice; events of one order come in order. An exception is a 500, and the event comes again. */
function sluice_event(WP_REST_Request $request): WP_REST_Response {
	if (!sluice_is_signed($request)) {
		return new WP_REST_Response(null, 401);
	}
	$event = json_decode($request->get_body(), true);
	$o = $event['data']['order'] ?? null;
	if ($o) {
		$order = sluice_order($o);
		$ended = in_array($event['type'], array('order.cancelled', 'order.expired', 'order.rejected'), true);
		if ($ended && $order->has_status(array('pending', 'failed'))) {
			remove_action('woocommerce_order_status_changed', 'sluice_report'); // Sluice knows
			$order->update_status('cancelled', 'Sluice: ' . $o['status'] . '.');
			add_action('woocommerce_order_status_changed', 'sluice_report');
		}
	}
	return new WP_REST_Response(null, 204);
}
