package httpapi

import (
	"reflect"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// operation describes a route. What the code knows anyway (path, who may ask,
// the shape of messages) is not said again here.
type operation struct {
	tag, summary, more string
	query, header      []parameter
	request            reflect.Type // of the body; nil: none
	required           []string     // of the request, where its type does not say; nil: by the type
	optionalBody       bool
	status             int          // of success; 0: 200
	response           reflect.Type // nil: see media
	media              string       // of a response without a type, or a stream of it
	bodyMedia          []string     // of a request body that is not JSON
	example            string       // of the request
	answer             string       // an example of the response
	codes              []string     // problems, besides those that every such route has
	pages              []int        // statuses that are answered by a page for people, in the route's media
	cached             bool         // ETag and 304
}

type parameter struct {
	name, what string
	schema     object
	required   bool
}

func typed[T any]() reflect.Type { return reflect.TypeFor[T]() }

// The parts of the API, in the order of the reference.
const (
	tagSales     = "Sales"
	tagOrders    = "Buyers' orders"
	tagTickets   = "Tickets"
	tagAdmin     = "Merchant: sales"
	tagLists     = "Merchant: lists of buyers"
	tagPayments  = "Merchant: orders"
	tagCare      = "Merchant: care"
	tagPages     = "Pages"
	tagOperation = "Operation"
)

// onWebhooks are the problems of the routes of one webhook.
var onWebhooks = []string{api.CodeWebhookNotFound, sluice.Unavailable.String()}

var tags = []string{tagSales, tagOrders, tagTickets, tagAdmin, tagLists, tagPayments, tagCare, tagPages, tagOperation}

var (
	text     = object{"type": "string"}
	whole    = object{"type": "integer", "format": "int64"}
	pageSize = parameter{name: "limit", what: "at most this many; default 100", schema: object{"type": "integer", "minimum": 1, "maximum": 1000}}
	cursor   = parameter{name: "cursor", what: "the next_cursor of the page before", schema: text}
	ofSale   = parameter{name: "sale", what: "only of this sale", schema: leaves[typed[sluice.SaleID]()]}
	ofStatus = parameter{name: "status", what: "only in this status", schema: leaves[typed[sluice.Status]()]}
	ofBuyer  = parameter{name: "buyer", what: "only of this buyer", schema: text}
)

const (
	exampleSale = `{"id":"phone-2026","sku":"PHONE-1","title":"A phone","price":{"amount":19900,"currency":"CNY"},"list_price":{"amount":39900,"currency":"CNY"},` +
		`"total":1000,"available":12,"max_per_buyer":1,"opens_at":"2026-11-11T12:00:00.000Z","closes_at":null,"state":"open","server_time":"2026-11-11T12:00:01.000Z"}`
	exampleCreate = `{"id":"phone-2026","sku":"PHONE-1","title":"A phone","price":{"amount":19900,"currency":"CNY"},"total":1000,"max_per_buyer":1,` +
		`"opens_at":"2026-11-11T12:00:00Z","closes_at":null}`
	examplePlaced = `{"order_id":"` + exampleOrder + `","sale_id":"phone-2026","quantity":1,"status":"queued"}`
)

// onLists are the problems of routes that change a list.
var onLists = []string{sluice.SaleNotFound.String(), api.CodeNotFound, api.CodeSaleState, sluice.Unavailable.String()}

// onSales are the problems of routes that change a sale.
var onSales = []string{sluice.SaleNotFound.String(), api.CodeSaleState, api.CodeOutcomeUnknown, sluice.Unavailable.String()}

// onTickets are the problems of routes that hand out tickets.
var onTickets = []string{
	sluice.SaleNotFound.String(), sluice.NotOpen.String(), sluice.Closed.String(), sluice.RateLimited.String(), api.CodeSaleState, sluice.Unavailable.String(),
}

// onOrders are the problems of routes that change an order.
var onOrders = []string{api.CodeOrderNotFound, api.CodeOrderQueued, api.CodeOrderEnded, sluice.Unavailable.String()}

// operations describes every route, by its pattern.
var operations = map[string]operation{
	"GET /v1/sales": {
		tag: tagSales, summary: "Sales that are or will be open", response: typed[api.SaleList](), cached: true,
		more: "From this server's memory: refreshed every refresh_interval, encoded once per change.",
	},
	"GET /v1/sales/{sale}": {
		tag: tagSales, summary: "A sale: price, window, state and what is available", response: typed[api.Sale](), cached: true, answer: exampleSale,
		more:  "server_time is the moment of the snapshot in which the sale first looked like this; for a countdown ask GET /v1/time.",
		codes: []string{sluice.SaleNotFound.String(), sluice.Unavailable.String()},
	},
	"GET /v1/sales/{sale}/events": {
		tag: tagSales, summary: "State and availability as server-sent events", media: "text/event-stream",
		more: "Each event is the body of GET /v1/sales/{sale}, sent at once when the state changes and at most twice a second otherwise; a reader who is slow " +
			"skips what came between, one who does not read is dropped. A stream starts with what holds now, so Last-Event-ID has no meaning. Comments keep it open.",
		codes:  []string{sluice.SaleNotFound.String(), sluice.Overloaded.String(), sluice.Unavailable.String()},
		answer: "retry: 1500\n\ndata: " + exampleSale + "\n\n",
	},
	"GET /v1/time": {tag: tagSales, summary: "The clock that opens and closes sales, for countdowns; never cached", response: typed[api.ServerTime]()},
	"POST /v1/sales/{sale}/orders": {
		tag: tagOrders, summary: "Claim units", status: 202, request: typed[api.PlaceOrder](), response: typed[api.Placed](), example: `{"quantity":1,"meta":{"size":"XL"}}`, answer: examplePlaced,
		more: "The key names the attempt: sent again, with the same content, it gets the same body and Idempotent-Replayed: true, for ever. After 503 outcome_unknown, or no " +
			"answer at all, try again with the same key.",
		header: []parameter{
			{name: "Idempotency-Key", what: "names this attempt of this buyer in this sale", schema: leaves[typed[sluice.Key]()], required: true},
			{name: "Sluice-Ticket", what: "the ticket, where the sale asks for one", schema: text},
		},
		codes: []string{
			sluice.SoldOut.String(), sluice.Insufficient.String(), sluice.BuyerLimit.String(), sluice.NotOpen.String(), sluice.Closed.String(), sluice.Paused.String(),
			sluice.SaleNotFound.String(), sluice.RateLimited.String(), sluice.Overloaded.String(), sluice.Unavailable.String(), api.CodeOutcomeUnknown,
			sluice.KeyReused.String(),
		},
	},
	"GET /v1/orders": {
		tag: tagOrders, summary: "The buyer's own stored orders, oldest first", response: typed[api.OrderPage](), query: []parameter{ofSale, ofStatus, pageSize, cursor},
		codes: []string{api.CodeBadRequest, sluice.RateLimited.String(), sluice.Overloaded.String(), sluice.Unavailable.String()},
	},
	"GET /v1/orders/{order}": {
		tag: tagOrders, summary: "One of the buyer's own orders", response: typed[api.Order](),
		codes: []string{api.CodeOrderNotFound, sluice.RateLimited.String(), sluice.Overloaded.String(), sluice.Unavailable.String()},
	},
	"POST /v1/orders/{order}/cancel": {
		tag: tagOrders, summary: "Cancel an order that is not paid", response: typed[api.Order](), codes: append([]string{sluice.RateLimited.String(), sluice.Overloaded.String()}, onOrders...), more: "The units are for sale again. Idempotent.",
	},

	"POST /v1/admin/sales": {
		tag: tagAdmin, summary: "Create a sale", status: 201, request: typed[api.CreateSale](), response: typed[api.AdminSale](), example: exampleCreate,
		required: []string{"sku", "title", "price", "total", "max_per_buyer", "opens_at"},
		more:     "opens_at in the past opens it at once; closes_at must be in the future. total, max_per_buyer and closes_at may be null: no such limit.",
		codes:    []string{api.CodeSaleState, api.CodeOutcomeUnknown, sluice.Unavailable.String()},
	},
	"GET /v1/admin/sales":        {tag: tagAdmin, summary: "All sales", response: typed[api.AdminSaleList]()},
	"GET /v1/admin/sales/{sale}": {tag: tagAdmin, summary: "A sale, with everything a merchant may know", response: typed[api.AdminSale](), codes: []string{sluice.SaleNotFound.String(), sluice.Unavailable.String()}},
	"PATCH /v1/admin/sales/{sale}": {
		tag: tagAdmin, summary: "Change a sale", request: typed[api.PatchSale](), required: []string{}, response: typed[api.AdminSale](), example: `{"title":"A better phone","total":1200}`,
		codes: append([]string{api.CodeBelowTaken}, onSales...), more: "Absent fields stay as they are; null takes a limit away.",
	},
	"POST /v1/admin/sales/{sale}/open":   {tag: tagAdmin, summary: "Open now", response: typed[api.AdminSale](), codes: onSales},
	"POST /v1/admin/sales/{sale}/pause":  {tag: tagAdmin, summary: "Pause: claims are refused until it is resumed", response: typed[api.AdminSale](), codes: onSales},
	"POST /v1/admin/sales/{sale}/resume": {tag: tagAdmin, summary: "Resume a paused sale", response: typed[api.AdminSale](), codes: onSales},
	"POST /v1/admin/sales/{sale}/close":  {tag: tagAdmin, summary: "Close now; orders keep their deadlines", response: typed[api.AdminSale](), codes: onSales},
	"POST /v1/admin/sales/{sale}/restock": {
		tag: tagAdmin, summary: "Change the total by a number of units, once per id", request: typed[api.Restock](), response: typed[api.AdminSale](),
		example: `{"id":"delivery-7","delta":100}`, codes: append([]string{api.CodeBelowTaken, sluice.KeyReused.String()}, onSales...),
	},
	"POST /v1/admin/sales/{sale}/rebuild": {
		tag: tagCare, summary: "Rebuild a sale in the ledger from what is known", status: 202, response: typed[api.AdminSale](),
		codes: []string{sluice.SaleNotFound.String(), api.CodeSaleState, sluice.Unavailable.String()}, more: "It is fenced at once, and resumes by itself when it is rebuilt.",
	},
	"POST /v1/admin/sales/{sale}/reconcile": {
		tag: tagCare, summary: "Compare ledger and store; with apply, repair what is safe", request: typed[api.Reconcile](), required: []string{}, optionalBody: true,
		response: typed[api.ReconcileReport](), example: `{"apply":false}`, codes: []string{sluice.SaleNotFound.String(), sluice.Unavailable.String()},
	},
	"GET /v1/admin/sales/{sale}/audit": {tag: tagCare, summary: "Prove that everything adds up, now", response: typed[api.AuditReport](), codes: []string{sluice.SaleNotFound.String(), sluice.Unavailable.String()}},

	"POST /v1/sales/{sale}/challenge": {
		tag: tagTickets, summary: "Get a proof of work to do before asking for a ticket", response: typed[api.Challenge](),
		more:  "The work: find a nonce so that SHA-256 of the challenge, a dot and the nonce begins with difficulty zero bits.",
		codes: onTickets,
	},
	"POST /v1/sales/{sale}/ticket": {
		tag: tagTickets, summary: "Get a ticket for a sale that asks for one", request: typed[api.AskTicket](), optionalBody: true, response: typed[api.Ticket](),
		more:  "Handed out shortly before the sale opens, to this buyer and for this sale alone; it goes into the header Sluice-Ticket of claims.",
		codes: onTickets,
	},
	"GET /v1/admin/sales/{sale}/check": {
		tag: tagAdmin, summary: "Check a sale before it opens", response: typed[api.SaleCheck](), codes: []string{sluice.SaleNotFound.String(), sluice.Unavailable.String()},
	},
	"PUT /v1/admin/sales/{sale}/lists/{list}": {
		tag: tagLists, summary: "Replace a list by the buyers in the body, one a line", bodyMedia: []string{"text/plain", "application/x-ndjson"}, response: typed[api.BuyerList](), codes: onLists,
	},
	"GET /v1/admin/sales/{sale}/lists/{list}": {
		tag: tagLists, summary: "A list: its size, and its buyers page by page", response: typed[api.BuyerPage](), query: []parameter{pageSize, cursor},
		codes: []string{sluice.SaleNotFound.String(), api.CodeNotFound, sluice.Unavailable.String()},
	},
	"DELETE /v1/admin/sales/{sale}/lists/{list}": {tag: tagLists, summary: "Empty a list", response: typed[api.BuyerList](), codes: onLists},

	"GET /v1/admin/orders": {
		tag: tagPayments, summary: "Stored orders, oldest first", response: typed[api.OrderPage](), query: []parameter{ofSale, ofStatus, ofBuyer, pageSize, cursor},
		codes: []string{api.CodeBadRequest, sluice.Unavailable.String()},
	},
	"GET /v1/admin/orders/{order}":         {tag: tagPayments, summary: "An order", response: typed[api.Order](), codes: []string{api.CodeOrderNotFound, sluice.Unavailable.String()}},
	"GET /v1/admin/orders/{order}/history": {tag: tagPayments, summary: "What became of an order, and by whom", response: typed[api.OrderHistory](), codes: []string{api.CodeOrderNotFound, sluice.Unavailable.String()}},
	"POST /v1/admin/orders/{order}/pay": {
		tag: tagPayments, summary: "Record a payment", request: typed[api.PayOrder](), response: typed[api.Order](), example: `{"payment_id":"pay-1"}`,
		codes: append([]string{api.CodePaymentConflict}, onOrders...), more: "The order becomes paid, or refund_due when the payment came too late. Idempotent by payment id.",
	},
	"POST /v1/admin/orders/{order}/cancel": {tag: tagPayments, summary: "Cancel an order that is not paid", response: typed[api.Order](), codes: onOrders},
	"POST /v1/admin/orders/{order}/refund": {tag: tagPayments, summary: "Say that the money of an order was given back", response: typed[api.Order](), codes: onOrders},
	"POST /v1/admin/orders/{order}/reject": {
		tag: tagPayments, summary: "Reject an order that cannot be fulfilled", request: typed[api.RejectOrder](), response: typed[api.Order](), example: `{"reason":"address not served"}`, codes: onOrders,
	},

	"GET /v1/admin/actions": {
		tag: tagCare, summary: "What admins did, the newest first", response: typed[api.AdminActionPage](), codes: []string{api.CodeBadRequest, sluice.Unavailable.String()},
		query: []parameter{pageSize, cursor},
	},
	"GET /v1/admin/dead-letters": {
		tag: tagCare, summary: "Journal entries that could not be stored, and that nobody has dealt with", response: typed[api.DeadLetterList](), query: []parameter{ofSale},
		codes: []string{api.CodeBadRequest, sluice.Unavailable.String()},
	},
	"GET /v1/admin/dead-letters/{id}":         {tag: tagCare, summary: "A dead letter", response: typed[api.DeadLetter](), codes: []string{api.CodeDeadLetterNotFound, sluice.Unavailable.String()}},
	"POST /v1/admin/dead-letters/{id}/replay": {tag: tagCare, summary: "Try again to store it", response: typed[api.Replayed](), codes: []string{api.CodeDeadLetterNotFound, api.CodeSaleState, sluice.Unavailable.String()}},
	"GET /v1/admin/events": {
		tag: tagCare, summary: "Every event of orders and sales, in commit order", response: typed[api.EventPage](), codes: []string{api.CodeBadRequest, api.CodeStaleCursor, sluice.Unavailable.String()},
		query: []parameter{{name: "after", what: "the id of the last event seen; empty: from the first; latest: none of those that are there", schema: text}, pageSize},
	},

	"POST /v1/admin/webhooks": {
		tag: tagCare, summary: "Add an endpoint that events are posted to", request: typed[api.CreateWebhook](), required: []string{"url"}, response: typed[api.Webhook](), status: 201,
		example: `{"url":"(the address of your endpoint)","types":["order.created","order.paid"]}`, codes: []string{sluice.Unavailable.String()},
		more: "It gets the events from now on, signed by the Standard Webhooks specification. This answer alone has the secret.",
	},
	"GET /v1/admin/webhooks":                    {tag: tagCare, summary: "All webhooks, and what waits for them", response: typed[api.WebhookList](), codes: []string{sluice.Unavailable.String()}},
	"GET /v1/admin/webhooks/{webhook}":          {tag: tagCare, summary: "A webhook", response: typed[api.Webhook](), codes: onWebhooks},
	"DELETE /v1/admin/webhooks/{webhook}":       {tag: tagCare, summary: "Delete a webhook, and forget what has not reached it", response: typed[api.WebhookDeleted](), codes: onWebhooks},
	"POST /v1/admin/webhooks/{webhook}/enable":  {tag: tagCare, summary: "Let a disabled webhook go on where it was", response: typed[api.Webhook](), codes: onWebhooks},
	"POST /v1/admin/webhooks/{webhook}/disable": {tag: tagCare, summary: "Stop a webhook; its events wait", response: typed[api.Webhook](), codes: onWebhooks},
	"POST /v1/admin/webhooks/{webhook}/replay": {
		tag: tagCare, summary: "Send events again: one, one and all after it, or those that were given up", request: typed[api.ReplayWebhook](), required: []string{}, response: typed[api.WebhookReplayed](),
		example: `{"failed":true}`, codes: append([]string{api.CodeEventNotFound}, onWebhooks...),
	},
	"GET /v1/admin/webhooks/{webhook}/deliveries": {
		tag: tagCare, summary: "The events that have not reached a webhook", response: typed[api.DeliveryPage](), codes: append([]string{api.CodeBadRequest}, onWebhooks...),
		query: []parameter{
			{name: "state", what: "only in this state", schema: object{"type": "string", "enum": []string{"pending", "failed"}}},
			{name: "after", what: "the next of the page before", schema: text},
			pageSize,
		},
	},

	"GET /{$}":                   {tag: tagPages, summary: "Sales by day and hour", media: "text/html"},
	"GET /s/{sale}":              {tag: tagPages, summary: "The page of a sale", media: "text/html", pages: []int{404, 503}},
	"GET /o/{order}":             {tag: tagPages, summary: "The page of an order", media: "text/html", pages: []int{404}},
	"GET /assets/{build}/{file}": {tag: tagPages, summary: "What the pages need", media: "*/*", pages: []int{404}},
	"GET /docs":                  {tag: tagOperation, summary: "This reference, for people", media: "text/html", cached: true},
	"GET /openapi.json":          {tag: tagOperation, summary: "This reference, for programs (OpenAPI 3.1)", media: "application/json", cached: true},
	"GET /healthz":               {tag: tagOperation, summary: "The process lives", response: typed[map[string]string]()},
	"GET /readyz":                {tag: tagOperation, summary: "It can decide claims", response: typed[api.Ready](), codes: []string{sluice.Unavailable.String()}},
	"GET /metrics":               {tag: tagOperation, summary: "Metrics in Prometheus' format", media: "text/plain"},
}
