// Made from the OpenAPI document by `go test ./internal/httpapi -run Current -update`.

export interface AdminAction {
  address: string;
  at: string;
  by: string;
  code?: string;
  id: number;
  node: string;
  /** carries the id of its sale */
  order_id?: string;
  path: string;
  request_id: string;
  route: string;
  sale_id?: string;
  status: number;
}

export interface AdminActionPage {
  actions: AdminAction[];
  next_cursor: string;
}

export interface AdminSale {
  address_rate: RuleAddressRate | null;
  admission_ratio: number | null;
  archived_at: string | null;
  as_of: string | null;
  /** what buyers read of the units: all; whether there are any; nothing */
  availability: "exact" | "some" | "none";
  available: number | null;
  backlog: number;
  badge?: string;
  buyer_rate: RuleBuyerRate | null;
  challenge: RuleChallenge | null;
  claims?: ClaimCounts;
  closes_at: string | null;
  created_at: string;
  deleted_orders?: DeletedOrders;
  description?: string;
  descriptions?: Texts;
  eligibility: string | null;
  epoch: number;
  fence: string;
  free?: boolean;
  id: string;
  limits: RuleLimit[];
  list_price: Money | null;
  loaded: boolean;
  max_orders_per_buyer: number | null;
  max_per_buyer: number | null;
  max_unpaid_per_buyer: number | null;
  opens_at: string;
  orders?: OrderCounts;
  paused: boolean;
  payment_grace_s: number;
  payment_window_s: number;
  /** the id of a picture that was uploaded (at /s/{sale}/pictures/{id}-640.jpg and -1280.jpg), or its https address */
  pictures?: string[];
  price: Money;
  risk: RuleRisk | null;
  seq: number;
  server_time: string;
  /** what buyers read of the units: all; whether there are any; nothing */
  shows?: "exact" | "some" | "none";
  sku: string;
  state: "upcoming" | "open" | "paused" | "sold_out" | "closed" | "unavailable";
  stored_taken: number;
  taken: number;
  terms_version: number;
  ticket: RuleTicket | null;
  tickets_from?: string;
  title: string;
  titles?: Texts;
  total: number | null;
  updated_at: string;
  /** who finds the sale: every buyer; by its id alone; no buyer, for whom it does not exist */
  visibility: "listed" | "unlisted" | "hidden";
}

export interface AdminSaleList {
  next_cursor: string;
  sales: AdminSale[];
}

export interface AskTicket {
  challenge?: string;
  nonce?: string;
  token?: string;
}

export interface AuditReport {
  checks: RuleAuditCheck[];
  figures?: Record<string, unknown> | null;
  in_flight: number;
  ok: boolean;
  sale_id?: string;
}

export interface Buyer {
  /** 1 to 128 bytes of UTF-8 */
  buyer_id: string;
}

export interface BuyerList {
  /** 1 to 128 bytes of UTF-8 */
  first?: string;
  list: string;
  sale_id: string;
  size: number;
  updated_at: string | null;
}

export interface BuyerPage {
  buyers: string[];
  /** 1 to 128 bytes of UTF-8 */
  first?: string;
  list: string;
  next_cursor: string;
  sale_id: string;
  size: number;
  updated_at: string | null;
}

export interface Challenge {
  challenge: string;
  difficulty: number;
  expires_at: string;
}

export interface Check {
  detail: string;
  name: string;
  right?: string;
  status: string;
  where?: string;
}

export interface ClaimCounts {
  answers: Record<string, unknown>;
  node: string;
  refused: Record<string, unknown>;
  since: string;
}

export interface Condition {
  cost: string;
  detail?: string;
  do: string;
  more?: number;
  name: string;
  sale_id?: string;
  section: string;
  since: string;
  urgency: string;
  what: string;
}

export interface CreateSale {
  address_rate?: RuleAddressRateInput | null;
  admission_ratio?: number | null;
  /** what buyers read of the units: all; whether there are any; nothing */
  availability?: "exact" | "some" | "none";
  badge?: string;
  buyer_rate?: RuleBuyerRateInput | null;
  challenge?: RuleChallengeInput | null;
  closes_at?: string | null;
  description?: string;
  descriptions?: TextsInput;
  eligibility?: string | null;
  free?: boolean;
  id?: string;
  limits?: RuleLimitInput[] | null;
  list_price?: MoneyInput | null;
  max_orders_per_buyer?: number | null;
  max_per_buyer: number | null;
  max_unpaid_per_buyer?: number | null;
  opens_at: string;
  payment_grace_s?: number;
  payment_window_s?: number;
  /** the id of a picture that was uploaded (at /s/{sale}/pictures/{id}-640.jpg and -1280.jpg), or its https address */
  pictures?: string[];
  price: MoneyInput;
  risk?: RuleRiskInput | null;
  sku: string;
  ticket?: RuleTicketInput | null;
  title: string;
  titles?: TextsInput;
  total: number | null;
  /** who finds the sale: every buyer; by its id alone; no buyer, for whom it does not exist */
  visibility?: "listed" | "unlisted" | "hidden";
}

export interface CreateWebhook {
  description?: string;
  secret?: string;
  types?: string[];
  url: string;
}

export interface Curve {
  answers: Record<string, unknown>;
  from: string | null;
  in_flight: number[];
  missing: number[];
  p50_ms: number[];
  p99_ms: number[];
  sale_id: string;
  server_time: string;
  step_s: number;
}

export interface DeadLetter {
  accepted_at: string | null;
  claims: string;
  created_at: string;
  entry_id: string;
  epoch: number;
  first_seq: number;
  id: number;
  node: string;
  reason: string;
  resolution: string;
  resolved_at: string | null;
  sale_id: string;
}

export interface DeadLetterList {
  dead_letters: DeadLetter[];
  next_cursor: string;
}

export interface DeletedOrders {
  at: string | null;
  sums: RuleSum[];
  unreadable?: boolean;
}

export interface Delivery {
  attempts: number;
  event_id?: string;
  last_error?: string;
  last_status: number;
  next_at: string | null;
  seq: number;
  state: string;
  subject: string;
  updated_at: string;
}

export interface DeliveryPage {
  deliveries: Delivery[];
  next_cursor: string;
}

export interface Difference {
  class: string;
  count: number;
  details: string[];
  orders: string[];
  repaired: number;
}

export interface EraseBuyer {
  /** 1 to 128 bytes of UTF-8 */
  buyer_id: string;
}

export interface Erased {
  admin_actions: number;
  dead_letters: number;
  orders: number;
  waiting: ErasureWait[];
}

export interface ErasureWait {
  reason: string;
  sale_id: string;
}

export interface Event {
  created_at: string;
  data: EventData;
  id: string;
  seq: number;
  type: string;
}

export interface EventData {
  order?: Order;
  refused_payment_id?: string;
  refused_reason?: string;
  sale?: EventSale;
}

export interface EventPage {
  events: Event[];
  next: string;
}

export interface EventSale {
  archived_at: string | null;
  closes_at: string | null;
  created_at: string;
  epoch: number;
  fence: string;
  free?: boolean;
  id: string;
  list_price: Money | null;
  max_orders_per_buyer: number | null;
  max_per_buyer: number | null;
  max_unpaid_per_buyer: number | null;
  opens_at: string;
  paused: boolean;
  payment_grace_s: number;
  payment_window_s: number;
  price: Money;
  sku: string;
  terms_version: number;
  title: string;
  total: number | null;
  updated_at: string;
}

export interface ExtendOrder {
  expires_at: string;
}

export interface LogLevel {
  before: string;
  level: string;
}

export interface Money {
  amount: number;
  currency: string;
}

export interface MoneyInput {
  amount: number;
  currency: string;
}

export interface Order {
  accepted_at: string;
  amount: number;
  /** 1 to 128 bytes of UTF-8 */
  buyer_id?: string;
  currency: string;
  epoch?: number;
  expires_at: string | null;
  idempotency_key?: string;
  keep_until?: string;
  meta: Record<string, unknown> | null;
  /** carries the id of its sale */
  order_id: string;
  payment_id?: string;
  price: Money;
  quantity: number;
  reason?: string;
  sale_id: string;
  seq?: number;
  status: "queued" | "pending" | "paid" | "rejected" | "cancelled" | "expired" | "refunded" | "refund_due";
  stored_at: string | null;
  updated_at?: string;
}

export interface OrderChange {
  action: string;
  at: string;
  by: string;
  expires_at?: string;
  from: "queued" | "pending" | "paid" | "rejected" | "cancelled" | "expired" | "refunded" | "refund_due";
  payment_id?: string;
  reason?: string;
  to: "queued" | "pending" | "paid" | "rejected" | "cancelled" | "expired" | "refunded" | "refund_due";
}

export interface OrderCounts {
  at: string;
  by_status: Record<string, unknown>;
}

export interface OrderHistory {
  changes: OrderChange[];
  /** carries the id of its sale */
  order_id: string;
}

export interface OrderPage {
  next_cursor: string;
  orders: Order[];
}

export interface PatchSale {
  address_rate?: RuleAddressRateInput | null;
  admission_ratio?: number | null;
  /** what buyers read of the units: all; whether there are any; nothing */
  availability?: "exact" | "some" | "none";
  badge?: string;
  buyer_rate?: RuleBuyerRateInput | null;
  challenge?: RuleChallengeInput | null;
  closes_at?: string | null;
  description?: string;
  descriptions?: TextsInput;
  eligibility?: string | null;
  free?: boolean;
  list_price?: MoneyInput | null;
  max_orders_per_buyer?: number | null;
  max_per_buyer?: number | null;
  max_unpaid_per_buyer?: number | null;
  opens_at?: string;
  payment_grace_s?: number;
  payment_window_s?: number;
  /** the id of a picture that was uploaded (at /s/{sale}/pictures/{id}-640.jpg and -1280.jpg), or its https address */
  pictures?: string[];
  price?: MoneyInput;
  risk?: RuleRiskInput | null;
  sku?: string;
  ticket?: RuleTicketInput | null;
  title?: string;
  titles?: TextsInput;
  total?: number | null;
  /** who finds the sale: every buyer; by its id alone; no buyer, for whom it does not exist */
  visibility?: "listed" | "unlisted" | "hidden";
}

export interface PayOrder {
  amount?: number;
  currency?: string;
  payment_id: string;
}

export interface Peer {
  admin?: string;
  differs: string[];
  node: string;
  seen_at: string;
  silent: boolean;
  version: string;
}

export interface PlaceOrder {
  meta?: Record<string, unknown> | null;
  quantity: number;
}

export interface Placed {
  /** carries the id of its sale */
  order_id: string;
  quantity: number;
  sale_id: string;
  status: "queued" | "pending" | "paid" | "rejected" | "cancelled" | "expired" | "refunded" | "refund_due";
}

export interface Problem {
  code: string;
  detail?: string;
  limit?: string;
  opens_at?: string;
  order_ids?: string[];
  reason?: string;
  status: number;
  tickets_from?: string;
  title: string;
  type: string;
}

export interface Ready {
  differ?: string[];
  ledger: string;
  ledger_state: string;
  node: string;
  recover?: string[];
  status: string;
  store: string;
  store_risks?: string[];
  store_state: string;
}

export interface Reconcile {
  apply?: boolean;
}

export interface ReconcileReport {
  applied: boolean;
  at: string | null;
  differences: Difference[];
  remaining: number;
  sale_id: string;
  skipped: string;
}

export interface Recover {
  apply?: boolean;
}

export interface Recovery {
  applied: boolean;
  ended: RuleRecoveredOrders;
  ledger?: string;
  no_expiry_before?: Time;
  payments: RuleRecoveredOrders[];
  sale_id: string;
  stored: RuleRecoveredOrders;
  stored_ended: RuleRecoveredOrders;
  terms?: string;
  why: string;
}

export interface RejectOrder {
  reason: string;
}

export interface ReplayWebhook {
  event?: string;
  failed?: boolean;
  from?: string;
}

export interface Replayed {
  lost: string[];
  saved: string[];
  waiting: string[];
}

export interface Restock {
  delta: number;
  id: string;
}

export interface RuleAddressRate {
  per_s: number;
  requests: number;
  shared: boolean;
}

export interface RuleAddressRateInput {
  per_s: number;
  requests: number;
  shared?: boolean;
}

export interface RuleAuditCheck {
  detail: string;
  id: string;
  name: string;
  ok: boolean;
  unchecked?: boolean;
}

export interface RuleBuyerRate {
  per_s: number;
  requests: number;
  shared: boolean;
}

export interface RuleBuyerRateInput {
  per_s: number;
  requests: number;
  shared?: boolean;
}

export interface RuleChallenge {
  difficulty: number;
}

export interface RuleChallengeInput {
  difficulty: number;
}

export interface RuleLimit {
  by?: string;
  max?: number;
}

export interface RuleLimitInput {
  by?: string;
  max?: number;
}

export interface RuleRecoveredOrders {
  count: number;
  orders: string[];
  reason?: string;
}

export interface RuleRisk {
  on_failure: string;
  timeout_ms: number;
  url: string;
}

export interface RuleRiskInput {
  on_failure?: string;
  timeout_ms?: number;
  url: string;
}

export interface RuleSum {
  amount: number;
  currency: string;
  orders: number;
  status: "queued" | "pending" | "paid" | "rejected" | "cancelled" | "expired" | "refunded" | "refund_due";
  units: number;
}

export interface RuleTicket {
  before_s: number;
}

export interface RuleTicketInput {
  before_s: number;
}

export interface Sale {
  available: number | null;
  badge?: string;
  closes_at: string | null;
  description?: string;
  descriptions?: Texts;
  free?: boolean;
  id: string;
  list_price: Money | null;
  max_per_buyer: number | null;
  opens_at: string;
  /** the id of a picture that was uploaded (at /s/{sale}/pictures/{id}-640.jpg and -1280.jpg), or its https address */
  pictures?: string[];
  price: Money;
  server_time: string;
  /** what buyers read of the units: all; whether there are any; nothing */
  shows?: "exact" | "some" | "none";
  sku: string;
  state: "upcoming" | "open" | "paused" | "sold_out" | "closed" | "unavailable";
  tickets_from?: string;
  title: string;
  titles?: Texts;
  total: number | null;
}

export interface SaleCheck {
  checks: Check[];
  node: string;
  sale_id: string;
  status: string;
}

export interface SaleDeleted {
  deleted: string;
}

export interface SaleList {
  sales: Sale[];
}

export interface ServerTime {
  server_time: string;
}

export interface SetLogLevel {
  level: string;
}

export interface Status {
  conditions: Condition[];
  ledger: string;
  node: string;
  server_time: string;
  servers: Peer[];
  store: string;
}

export interface Texts {
  en?: string;
  zh?: string;
}

export interface TextsInput {
  en?: string;
  zh?: string;
}

export interface Ticket {
  expires_at: string;
  ticket: string;
}

export interface Time {
}

export interface Webhook {
  behind: number;
  created_at: string;
  delivered: number;
  description: string;
  disabled_at: string | null;
  disabled_why?: string;
  failed: number;
  failures: number;
  id: string;
  last_error?: string;
  last_failure_at: string | null;
  last_success_at: string | null;
  pending: number;
  retry_at: string | null;
  secret?: string;
  status: string;
  types: string[];
  updated_at: string;
  url: string;
}

export interface WebhookDeleted {
  deleted: string;
}

export interface WebhookList {
  next_cursor: string;
  webhooks: Webhook[];
}

export interface WebhookReplayed {
  replayed: number;
}

export interface WebhookTested {
  delivered: boolean;
  error?: string;
  event_id: string;
  status: number;
  took_ms: number;
}
