<?php
// Stands in for WordPress and WooCommerce: as much of them as examples/woocommerce/sluice.php calls.
// What it keeps are files in the folder SHOP; the product poster has the id 7.

define('ABSPATH', __DIR__);
define('SHOP', getenv('SHOP'));
require SHOP . '/wp-config.php';

$hooks = array();
function add_filter($name, $call, $priority = 10, $arguments = 1) { $GLOBALS['hooks'][$name][] = array($call, $arguments); }
function add_action($name, $call, $priority = 10, $arguments = 1) { add_filter($name, $call, $priority, $arguments); }
function remove_action($name, $call) {
	$GLOBALS['hooks'][$name] = array_filter($GLOBALS['hooks'][$name], fn($hook) => $hook[0] !== $call);
}
function apply_filters($name, $value, ...$more) {
	foreach ($GLOBALS['hooks'][$name] ?? array() as list($call, $arguments)) {
		$value = $call(...array_slice(array($value, ...$more), 0, $arguments));
	}
	return $value;
}
function do_action($name, ...$more) { apply_filters($name, ...($more ?: array(null))); }

// The visitor.
function get_current_user_id() { return (int) ($_COOKIE['wp_user'] ?? 0); }
function is_user_logged_in() { return get_current_user_id() > 0; }
function is_ssl() { return false; }
function home_url($path) { return 'http://' . $_SERVER['HTTP_HOST'] . $path; }
function wp_login_url($back) { return home_url('/wp-login.php?redirect_to=' . urlencode($back)); }
function wp_redirect($to, $status = 302) { header("Location: $to", true, $status); }
function wp_safe_redirect($to) { wp_redirect($to); }
function nocache_headers() { header('Cache-Control: no-store'); }
function wp_die($message, $title, $args) {
	http_response_code($args['response']);
	exit($message);
}

// Texts.
function wp_unslash($value) { return is_string($value) ? stripslashes($value) : $value; }
function slash($values) { return array_map(fn($v) => is_string($v) ? addslashes($v) : $v, $values); }
function wc_clean($value) { return trim(strip_tags($value)); }
function esc_url($url) { return htmlspecialchars($url); }
function esc_html($text) { return htmlspecialchars($text); }
function esc_html__($text, $domain) { return esc_html($text); }
function wp_json_encode($value) { return json_encode($value); }
function absint($value) { return abs((int) $value); }
function get_query_var($name) { return $GLOBALS['query'][$name] ?? ''; }

// Products.
function get_the_ID() { return 7; }
function get_post_meta($id, $name, $single) { return $id === 7 && $name === 'sluice_sale' && $single ? getenv('SALE') : ''; }
function get_posts($query) {
	return $query['meta_key'] === 'sluice_sale' && $query['meta_value'] === getenv('SALE') ? array(7) : array();
}
class WC_Product {
	public function get_meta($name) { return get_post_meta(7, $name, true); }
}
function wc_get_product($id) { return $id === 7 ? new WC_Product() : null; }

// Orders: a file each.
class WC_Customer {
	private $id;
	public function __construct($id) { $this->id = $id; }
	public function get_billing() { return array('email' => "{$this->id}@example.com"); }
	public function get_shipping() { return array('city' => 'Berlin'); }
}
class WC_Order {
	public $data = array('id' => 0, 'status' => 'pending', 'meta' => array(), 'items' => array(), 'notes' => array(),
		'transaction_id' => '', 'billing_email' => '', 'total' => '', 'currency' => 'USD', 'stock_reduced' => false);
	public function __construct($id = 0) {
		if ($id) {
			$this->data = json_decode(file_get_contents(SHOP . "/orders/$id.json"), true);
		}
	}
	public function save() {
		while (!$this->data['id']) {
			$id = random_int(100, 99999);
			if (@fopen(SHOP . "/orders/$id.taken", 'x')) {
				$this->data['id'] = $id;
			}
		}
		$file = SHOP . '/orders/' . $this->data['id'];
		file_put_contents("$file.new" . getmypid(), json_encode($this->data));
		rename("$file.new" . getmypid(), "$file.json");
	}
	public function get_id() { return $this->data['id']; }
	public function add_meta_data($name, $value, $unique) { $this->data['meta'][$name] = $value; }
	public function update_meta_data($name, $value) { $this->data['meta'][$name] = $value; }
	public function delete_meta_data($name) { unset($this->data['meta'][$name]); }
	public function get_meta($name) { return $this->data['meta'][$name] ?? ''; }
	public function set_created_via($via) { $this->data['created_via'] = $via; }
	public function set_currency($currency) { $this->data['currency'] = $currency; }
	public function set_customer_id($id) { $this->data['customer_id'] = $id; }
	public function set_address($address, $kind) {
		if ($kind === 'billing') {
			$this->set_billing_email($address['email']);
		}
	}
	public function set_billing_email($email) {
		if (strpos($email, '@') === false) {
			throw new Exception('Invalid billing email address');
		}
		$this->data['billing_email'] = $email;
	}
	public function get_billing_email() { return $this->data['billing_email']; }
	public function get_items() { return $this->data['items']; }
	public function add_product($product, $quantity, $totals) {
		$this->data['items'][] = array('quantity' => $quantity) + $totals;
		$this->save();
	}
	public function calculate_totals($taxes) {
		$this->data['total'] = $this->data['items'][0]['total'];
		$this->save();
	}
	public function get_total() { return $this->data['total']; }
	public function get_currency() { return $this->data['currency']; }
	public function get_transaction_id() { return $this->data['transaction_id']; }
	public function has_status($status) { return in_array($this->data['status'], (array) $status, true); }
	public function is_paid() { return $this->has_status(array('processing', 'completed')); }
	public function needs_payment() { return $this->has_status(array('pending', 'failed')); }
	public function get_checkout_payment_url() { return home_url('/checkout/order-pay/' . $this->data['id']); }
	public function update_status($status, $note = '') {
		if (is_file(SHOP . "/dies-before-$status")) {
			exit;
		}
		$from = $this->data['status'];
		$this->data['status'] = $status;
		$this->data['notes'][] = $note;
		if ($status === 'processing') {
			$this->data['stock_reduced'] = apply_filters('woocommerce_can_reduce_order_stock', true, $this);
		}
		$this->save();
		if ($from !== $status) {
			do_action('woocommerce_order_status_changed', $this->data['id'], $from, $status, $this);
		}
	}
	public function add_order_note($note) {
		$this->data['notes'][] = $note;
		$this->save();
	}
	public function payment_complete($transaction) {
		$this->data['transaction_id'] = $transaction;
		$this->update_status('processing');
	}
}
function wc_get_order($id) { return is_file(SHOP . "/orders/$id.json") ? new WC_Order($id) : false; }
function all_orders() {
	return array_map(fn($file) => new WC_Order((int) basename($file)), glob(SHOP . '/orders/*.json'));
}
function wc_get_orders($query) {
	$found = array_values(array_filter(all_orders(), fn($o) => $o->get_meta($query['meta_key']) === $query['meta_value']));
	usleep(50000); // two who look at about the same time find the same
	return $found;
}

// The form of the payment page.
function WC() { return (object) array('countries' => new Countries()); }
class Countries {
	public function get_address_fields($country, $prefix) {
		return array($prefix . 'email' => array('label' => 'Email address', 'required' => true));
	}
}
function woocommerce_form_field($name, $field) { echo "<input name=\"$name\">"; }
function wc_add_notice($text, $kind) { $GLOBALS['notices'][] = $text; }

// The database's named locks, HTTP, REST, Action Scheduler.
class Database {
	private $held = array();
	public function prepare($statement, $name) { return str_replace('%s', "'$name'", $statement); }
	public function get_var($statement) {
		preg_match("/^SELECT (GET|RELEASE)_LOCK\('(\w+)'/", $statement, $m);
		if ($m[1] === 'RELEASE') {
			flock($this->held[$m[2]], LOCK_UN);
			return '1';
		}
		$this->held[$m[2]] = fopen(SHOP . "/$m[2].lock", 'c');
		return flock($this->held[$m[2]], LOCK_EX) ? '1' : '0';
	}
}
$wpdb = new Database();
function wp_remote_request($url, $o) {
	if (is_file(SHOP . '/sluice-is-down')) {
		return null;
	}
	$headers = '';
	foreach ($o['headers'] as $name => $value) {
		$headers .= "$name: $value\r\n";
	}
	$body = @file_get_contents($url, false, stream_context_create(array('http' => array(
		'method' => $o['method'], 'header' => $headers, 'content' => (string) $o['body'], 'timeout' => $o['timeout'],
		'ignore_errors' => true, 'follow_location' => (int) (($o['redirection'] ?? 5) > 0),
	))));
	return $body === false ? null : array('code' => (int) substr($http_response_header[0], 9, 3), 'body' => $body);
}
function wp_remote_retrieve_response_code($answer) { return $answer['code'] ?? ''; }
function wp_remote_retrieve_body($answer) { return $answer['body'] ?? ''; }
class WP_REST_Request {
	public function get_body() { return file_get_contents('php://input'); }
	public function get_header($name) { return $_SERVER['HTTP_' . strtoupper(strtr($name, '-', '_'))] ?? null; }
}
class WP_REST_Response {
	public $status;
	public function __construct($data, $status) { $this->status = $status; }
}
function register_rest_route($space, $path, $route) { $GLOBALS['routes']["/wp-json/$space$path"] = $route; }
function as_schedule_single_action($at, $name, $args) { file_put_contents(SHOP . '/scheduled', "$name $args[0]\n", FILE_APPEND); }
function as_unschedule_all_actions($name, $args) {
	$lines = file(SHOP . '/scheduled');
	file_put_contents(SHOP . '/scheduled', implode('', array_filter($lines, fn($line) => $line !== "$name $args[0]\n")));
}

require getenv('PLUGIN');

$_GET = slash($_GET);
$_POST = slash($_POST);
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if (strpos($path, '/wp-json/') === 0) {
	do_action('rest_api_init');
	http_response_code($routes[$path]['callback'](new WP_REST_Request())->status);
} elseif ($path === '/product/poster') {
	do_action('woocommerce_single_product_summary');
	echo apply_filters('woocommerce_is_purchasable', true, wc_get_product(7)) ? 'Add to cart' : '';
} elseif (preg_match('#^/checkout/order-pay/(\d+)$#', $path, $m)) {
	$query['order-pay'] = $m[1];
	$order = wc_get_order($m[1]);
	$notices = array();
	if ($_SERVER['REQUEST_METHOD'] === 'GET') {
		do_action('woocommerce_pay_order_before_submit');
		exit($order->data['total'] . ' ' . $order->data['currency']);
	}
	do_action('woocommerce_before_pay_action', $order);
	if (!$notices) { // the gateway takes the money, also of an order that has been cancelled meanwhile
		$order->payment_complete($_POST['transaction'] ?? '');
	}
	echo implode("\n", $notices);
} elseif ($path === '/test/orders') {
	echo json_encode(array_map(fn($order) => $order->data, all_orders()));
} elseif ($path === '/test/status') {
	$order = wc_get_order($_GET['order']);
	$order->data['transaction_id'] = $_GET['transaction'] ?? $order->data['transaction_id'];
	$order->update_status($_GET['status']);
} elseif ($path === '/test/total') {
	$order = wc_get_order($_GET['order']);
	$order->data['total'] = $_GET['total'];
	$order->save();
} elseif ($path === '/test/scheduled') { // what is due in a minute is due now
	$due = @file(SHOP . '/scheduled') ?: array();
	file_put_contents(SHOP . '/scheduled', '');
	foreach ($due as $line) {
		do_action(...explode(' ', trim($line)));
	}
	echo count($due);
} elseif ($path === '/test/digits') {
	echo sluice_digits($_GET['currency']);
} else {
	do_action('template_redirect');
}
