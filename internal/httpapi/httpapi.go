// Package httpapi is the HTTP side of Sluice: JSON in, JSON out, problems as
// RFC 9457. It is the only place where codes become HTTP statuses.
package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/content"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// Options are what a Server is made of. All but Metrics, Now and Log are needed.
type Options struct {
	// Base is the path under which the shop serves all this, without a slash at its end;
	// empty: none. Requests come without it.
	Base   string
	Events EventsOptions // of GET /v1/sales/{sale}/events
	// Origins lists the origins whose pages may use the buyers' half of the API, as
	// CheckOrigins wants them; none unless given.
	Origins []string

	Gate    *admission.Gate
	Board   *admission.Board
	Control sluice.Control
	Store   Store
	Ledger  port.Reader

	// Audit proves a sale, now.
	Audit func(ctx context.Context, sale sluice.SaleID) (sluice.AuditReport, error)
	// Reconcile compares ledger and store of a sale, and with apply repairs.
	Reconcile func(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.ReconcileReport, error)
	// Recover says what the ledger of a sale has and its older store lacks, and with apply
	// stores it. Outdated are the sales that wait for that; nil: none ever do.
	Recover  func(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.Recovery, error)
	Outdated func() []sluice.SaleID
	// Foreign reports whether another ledger than this server's decides about a sale; nil: none ever does.
	Foreign func(*sluice.Sale) bool
	// PictureHosts are the hosts of pictures that a sale may name by their address.
	PictureHosts []string
	// NewSaleID makes the id of a sale whose merchant gave none.
	NewSaleID func() sluice.SaleID

	// Confirmed is nil if enough replicas of the ledger would have a claim on the sale;
	// nil itself: no claim waits for replicas. Replicas says what the last look at their
	// number found.
	Confirmed func(ctx context.Context, sale sluice.SaleID) error
	Replicas  func() error

	Kinds  api.Ready // what /readyz says of node, ledger and store
	Buyers *auth.Verifier
	// Identify returns the buyer of a request without a token, by a session of the shop,
	// or no buyer; with an error it cannot say now. The request's context ends in time. Nil:
	// there are no sessions.
	Identify func(*http.Request) (sluice.BuyerID, error)
	// Signed returns what the shop says of that buyer for the limits of sales. Nil: nothing.
	Signed func(*http.Request) map[string]string
	Admins *auth.Admins
	// Proxies say whom to believe about where requests come from.
	Proxies Proxies

	// LedgerRisks are settings of the ledger that can lose accepted claims; nil: it has
	// none to look at.
	LedgerRisks func(context.Context) ([]port.SettingRisk, error)
	// Differ returns in what other servers differ from this one; nil: there are none.
	Differ func() []port.Difference
	// Standing returns what is wrong, the worst first, and Peers the servers of the shop; nil: nothing is known.
	Standing func() []condition.Standing
	Peers    func() []Peer
	// StoreRisks asks for the settings of the database that can lose orders and payments, and
	// StoreRisked returns what was found a moment ago; nil: it has none to look at.
	StoreRisks  func(context.Context) ([]port.SettingRisk, error)
	StoreRisked func() []port.SettingRisk

	// TryWebhook posts a body to a webhook once; the error says why it was not delivered,
	// the status is the receiver's, 0 without an answer.
	TryWebhook func(ctx context.Context, w *sluice.Webhook, id string, body []byte) (status int, err error)
	// Replay deals with a dead letter.
	Replay func(ctx context.Context, id int64) (settle.Replayed, error)
	// Eligibility is what stands before sales with tickets, lists or a risk service.
	Eligibility Eligibility
	// Changed is called when an order has been changed. It must not block.
	Changed func(*sluice.Order)

	Pages   http.Handler // of buyers: GET /, /s/, /o/ and /assets/; nil: 404
	Console http.Handler // /admin and below; nil: 404
	Metrics http.Handler // GET /metrics; nil: 404
	Claims  ClaimCounter // nil: no counting
	Timer   Timer        // nil: no counting
	// LogLevel is the level of the log's handler; nil: it cannot be changed.
	LogLevel *slog.LevelVar
	// AdminDecided counts admins' actions: recorded, unrecorded (the store did
	// not take the record), forbidden, and wrong_key: tries of unknown keys;
	// nil: no counting.
	AdminDecided Counter
	Now          func() time.Time
	// Refusing says why the ledger refuses to write, an ErrRefusesWrites, if it does.
	// If it is nil, the ledger does not.
	Refusing func(context.Context) error
	Log      *slog.Logger
}

// Store is what the API uses of port.Store.
type Store interface {
	port.SaleStore
	port.OrderStore
	port.SettleStore
	port.DeadLetterStore
	port.EventStore
	port.WebhookStore
	port.ListStore
	port.AdminStore
	port.CurveStore
	EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (sluice.Erased, error)
	Clock(ctx context.Context) (time.Time, error)
	Ping(ctx context.Context) error
	LiveServers(ctx context.Context, within time.Duration) ([]port.Server, error)
}

// Counter counts by code.
type Counter interface{ Count(code string) }

// Server answers the HTTP API. It is an http.Handler for one listener with the
// whole API; Public and Admin are for two.
type Server struct {
	Options
	problems
	whole    *side
	refusals burst // of the records of what was forbidden
	panics   burst // of the log's lines about them
	guesses  struct{ public, admin *guesses }
	notOpen  notOpens
	limits   *requestLimits

	identifying atomic.Int64 // calls of Identify

	listing sync.Mutex // one list is made at a time
	list    atomic.Pointer[saleList]
	events  *fan
	cors    *cors // nil: none
	forged  *http.CrossOriginProtection

	document func() *content.Answer

	refusedLines refusedLines
	unnamed      unnamed

	readiness readiness
	curves    curves
	orders    orderCounts
}

// New returns a Server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Claims == nil {
		o.Claims = noClaims{}
	}
	if o.AdminDecided == nil {
		o.AdminDecided = noCounter{}
	}
	s := &Server{
		Options: o, problems: newProblems(o.Base), limits: newRequestLimits(o.Now()), refusedLines: newRefusedLines(),
	}
	s.forged, s.document = http.NewCrossOriginProtection(), newDocument(o.Base)
	s.guesses.public, s.guesses.admin = newGuesses(&s.Options, true), newGuesses(&s.Options, false)
	s.whole = s.side(func(Route) bool { return true })
	s.events, s.cors = newFan(o.Events, o.Board.View, o.Now), newCORS(o.Origins)
	return s
}

type noCounter struct{}

func (noCounter) Count(string) {}

// ServeHTTP answers a request for any route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.whole.ServeHTTP(w, r) }

// NewServer returns an http.Server with limits that keep slow, idle, vanished and too many clients from
// holding it: no request lasts much longer than 30 seconds. A program that sets its ConnState calls the one
// that was there.
func NewServer(handler http.Handler, connections *Connections) *http.Server {
	server := &http.Server{
		Handler:        &exchanges{handler},
		ReadTimeout:    10 * time.Second, // of header and body; an exchange lifts it once both are there
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return connections.context(shedVanished(ctx, conn), conn)
		},
		ConnState: connections.changed,
		HTTP2:     http2Limits(),
		ErrorLog:  log.New(connections, "", 0),
	}
	server.RegisterOnShutdown(connections.drain)
	return server
}

// maxBody bounds the body of every request, in bytes.
const maxBody = 64 << 10

func bodyTooLarge(most int64) error {
	return faultOf(api.CodeTooLarge, "want a body of at most %d bytes", most)
}

// readBody reads a body of at most so many bytes into a message. Empty: there may
// be none.
func readBody(w http.ResponseWriter, r *http.Request, most int64, message any, empty bool) error {
	if empty && r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength > most {
		return bodyTooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, beyond := errors.AsType[*http.MaxBytesError](err); beyond {
		return bodyTooLarge(most)
	}
	if err != nil {
		return badRequest("the body cannot be read: %v", err)
	}
	if empty && len(body) == 0 {
		return nil
	}
	if err := api.Decode(body, message); err != nil {
		return badRequest("%v", err)
	}
	return nil
}

// defaultPage is how many rows a page of a list has, unless asked otherwise.
const defaultPage = 100

// parameter is one of a query string. It reads a value that is not empty, or
// says what would be right.
type parameter struct {
	name string
	read func(value string) error
}

// maxQuery bounds a query string, in bytes. The longest id of a buyer is 384 in it.
const maxQuery = 4096

// readQuery reads the query string. Other parameters are errors, and repeated
// ones.
func readQuery(r *http.Request, parameters ...parameter) error {
	if len(r.URL.RawQuery) > maxQuery {
		return badRequest("the query string is long: want at most %d bytes", maxQuery)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query string cannot be read")
	}
	var names []string
	for _, p := range parameters {
		names = append(names, p.name)
	}
	for name, values := range query {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return badRequest("%q: unknown parameter; want some of %v", name, names)
		case len(values) != 1:
			return badRequest("%s: stands more than once", name)
		case values[0] == "":
			continue
		}
		if err := parameters[i].read(values[0]); err != nil {
			return badRequest("%s: %v", name, err)
		}
	}
	return nil
}

func pageSize(at *int) parameter {
	*at = defaultPage
	return parameter{"limit", func(value string) (err error) {
		if *at, err = strconv.Atoi(value); err != nil || *at < 1 || *at > sluice.MaxPage {
			return fmt.Errorf("want 1 to %d", sluice.MaxPage)
		}
		return nil
	}}
}

// cursor is one that the store reads.
func cursor(at *string) parameter {
	return parameter{"cursor", func(value string) error {
		*at = value
		return nil
	}}
}

const wrongCursor = "want the next_cursor of the page before"

// numberCursor is the number of the last one of the page before.
func numberCursor(at *int64) parameter {
	return parameter{"cursor", func(value string) (err error) {
		if *at, err = strconv.ParseInt(value, 10, 64); err != nil || *at < 0 {
			return errors.New(wrongCursor)
		}
		return nil
	}}
}

// buyerCursor is the last buyer of the page before.
func buyerCursor(at *sluice.BuyerID) parameter {
	return parameter{"cursor", func(value string) error {
		id, err := base64.RawURLEncoding.DecodeString(value)
		if *at = sluice.BuyerID(id); err != nil || at.Validate() != nil {
			return errors.New(wrongCursor)
		}
		return nil
	}}
}

// ofSale, ofBuyer and ofStatus narrow a list down.
func ofSale(at *sluice.SaleID) parameter {
	return parameter{"sale", func(value string) error {
		*at = sluice.SaleID(value)
		return at.Validate()
	}}
}

func (s *Server) ofBuyer(at *sluice.BuyerID) parameter {
	return parameter{"buyer", func(value string) (err error) {
		*at, err = s.Buyers.BuyerID(sluice.BuyerID(value))
		return err
	}}
}

func ofPayment(at *string) parameter {
	return parameter{"payment_id", func(value string) error {
		if *at = value; len(value) < 1 || len(value) > maxWords {
			return fmt.Errorf("want 1 to %d bytes", maxWords)
		}
		return nil
	}}
}

func ofStatus(at *sluice.Status) parameter {
	return parameter{"status", func(value string) error {
		if *at = sluice.Status(value); !slices.Contains(sluice.Statuses(), *at) {
			return fmt.Errorf("%q: want one of %v", value, sluice.Statuses())
		}
		return nil
	}}
}
