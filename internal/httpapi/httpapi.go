// Package httpapi is the HTTP side of Sluice: JSON in, JSON out, problems as
// RFC 9457. It is the only place where codes become HTTP statuses.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/settle"
)

// Options are what a Server is made of. All but Metrics, Now and Log are needed.
type Options struct {
	Events EventsOptions // of GET /v1/sales/{sale}/events
	// Origins are those whose pages may use the buyers' half of the API, as
	// auth.CheckOrigins wants them; none unless given.
	Origins []string

	Gate    *admission.Gate
	Board   *admission.Board
	Control sluice.Control
	Store   Store
	Ledger  sluice.Reader

	// Audit proves a sale, now.
	Audit func(ctx context.Context, sale sluice.SaleID) (sluice.AuditReport, error)
	// Reconcile compares ledger and store of a sale, and with apply repairs.
	Reconcile func(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.ReconcileReport, error)
	// NewSaleID makes the id of a sale whose merchant gave none.
	NewSaleID func() sluice.SaleID

	Kinds  api.Ready // what /readyz says of node, ledger and store
	Buyers *auth.Verifier
	Admins *auth.Admins
	// Proxies say whom to believe about where requests come from.
	Proxies Proxies

	// Replay deals with a dead letter.
	Replay func(ctx context.Context, id int64) (settle.Replayed, error)
	// Eligibility is what stands before sales with tickets, lists or a risk service.
	Eligibility Eligibility
	// Ended is called when an order has ended: its units are on their way back.
	Ended func()

	Pages   http.Handler // of buyers: GET /, /s/, /o/ and /assets/; nil: 404
	Metrics http.Handler // GET /metrics; nil: 404
	Decided Counter      // counts the answers to claims by code; nil: no counting
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

// Store is what the API uses of sluice.Store.
type Store interface {
	sluice.SaleStore
	sluice.OrderStore
	sluice.SettleStore
	sluice.DeadLetterStore
	sluice.EventStore
	sluice.WebhookStore
	sluice.ListStore
	sluice.AdminStore
	EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (sluice.Erased, error)
	Clock(ctx context.Context) (time.Time, error)
	Ping(ctx context.Context) error
	LiveNodes(ctx context.Context, within time.Duration) ([]string, error)
}

// Counter counts by code.
type Counter interface{ Count(code string) }

// Server answers the HTTP API. It is an http.Handler for one listener with the
// whole API; Public and Admin are for two.
type Server struct {
	Options
	whole    side
	refusals bucket // of the records of what was forbidden
	panics   bucket // of the log's lines about them
	guesses  *guesses
	notOpen  notOpens
	shares   *shares

	listing sync.Mutex // one list is made at a time
	list    atomic.Pointer[saleList]
	events  *fan
	cors    *cors // nil: none

	readiness readiness
}

// New returns a Server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Decided == nil {
		o.Decided = noCounter{}
	}
	if o.AdminDecided == nil {
		o.AdminDecided = noCounter{}
	}
	s := &Server{Options: o, shares: newShares(o.Now())}
	s.guesses = newGuesses(&s.Options)
	s.whole = s.side(func(Route) bool { return true })
	s.events, s.cors = newFan(o.Events, o.Board.View, o.Now), newCORS(o.Origins)
	return s
}

type noCounter struct{}

func (noCounter) Count(string) {}

// ServeHTTP answers a request for any route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.whole.ServeHTTP(w, r) }

// NewServer returns an http.Server with limits that keep slow, idle, vanished and
// too many clients from holding it: no request lasts longer than 30 seconds.
func NewServer(handler http.Handler, connections *Connections) *http.Server {
	return &http.Server{
		Handler:        untilRead(handler),
		ReadTimeout:    10 * time.Second, // of the header, too: a limit of its own costs each request a timer
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
}

// maxBody bounds the body of every request, in bytes.
const maxBody = 64 << 10

// readBody reads a body of at most so many bytes into a message. Empty: there may
// be none.
func readBody(w http.ResponseWriter, r *http.Request, most int64, message any, empty bool) error {
	if empty && r.ContentLength == 0 {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, beyond := errors.AsType[*http.MaxBytesError](err); beyond {
		return faultOf(api.CodeTooLarge, "want a body of at most %d bytes", most)
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
