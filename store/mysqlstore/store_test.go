package mysqlstore_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	suite := storetest.Databases(server.Databases)
	if servertest.IsNightly() {
		suite.Run(t)
	} else {
		suite.RunAlone(t) // the Go code that races runs on PostgreSQL: it is the same but for the dialect
	}
}

func TestServer(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	server.Run(t)
}

func TestChild(t *testing.T) { server.Child(t) }

func TestSoak(t *testing.T) { storetest.Databases(server.Databases).Soak(t) }

var server = &storetest.Server{
	Name:  "mysqlstore",
	Empty: servertest.MySQL,
	Start: func(t testing.TB) storetest.ServerProcess { return servertest.StartMySQL(t) },
	Open: func(ctx context.Context, url string, opts storetest.ServerOptions) (port.Store, error) {
		return opened(mysqlstore.Open(ctx, url, mysqlstore.Options(opts)))
	},
	OpenReadOnly: func(ctx context.Context, url string) (port.Store, error) {
		return opened(mysqlstore.OpenReadOnly(ctx, url))
	},
	OpenAhead: func(t testing.TB, url string, by time.Duration) (port.Store, error) {
		return opened(mysqlstore.OpenAhead(t.Context(), url, by))
	},
	LiftReadOnly:  func(s port.Store) { s.(*mysqlstore.Store).ReadOnly = false },
	ReadOnlyError: "READ ONLY",
	Raw:           mysqlstore.OpenRaw,
	Tables:        "SELECT table_name FROM information_schema.tables WHERE table_schema = database()",
	Earlier:       func(column, seconds string) string { return column + " - INTERVAL (" + seconds + ") SECOND" },
	Refuse: `CREATE TRIGGER shop BEFORE INSERT ON orders FOR EACH ROW
		IF NEW.quantity > 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not more than one'; END IF`,
	Accept: "DROP TRIGGER shop",
	Deadlocks: func(t *testing.T, url string) (n int) {
		var name string
		must.Succeed(t, mysqlstore.OpenRaw(t, url).QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n))
		return n
	},
	HoldMigrations: holdMigrations, LockIsOfTheDatabase: true,
	OpenErrors: openErrors,
}

// opened is nil if the store is.
func opened(s *mysqlstore.Store, err error) (port.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func holdMigrations(t *testing.T, url string) (release func()) {
	t.Helper()
	conn, err := mysqlstore.OpenRaw(t, url).Conn(t.Context())
	conn = storetest.Kept(t, conn, err)
	run := func(query string, args ...any) {
		t.Helper()
		var done int
		if err := conn.QueryRowContext(t.Context(), query, args...).Scan(&done); err != nil || done != 1 {
			t.Fatalf("%s: %d, %v", query, done, err)
		}
	}
	run(mysqlstore.AcquireLock, 0)
	return func() { run(mysqlstore.ReleaseLock) }
}

func openErrors(t *testing.T, base, secret string, away, wrong func(name, url, want string)) {
	changed := func(change func(*url.URL)) string {
		u := must.Get(url.Parse(base))(t)
		change(u)
		return u.String()
	}
	with := func(query string) string { return "mysql://ann:" + secret + "@127.0.0.1/shop?" + query }
	away("no such host", "mysql://ann:"+secret+"@no-such-host.invalid/shop", `no-such-host.invalid:3306`)
	away("no answer",
		fmt.Sprintf("mysql://ann:%s@%s/shop?connect_timeout=1", secret, deaf(t)), "does not answer within 1s")
	wrong("wrong password", changed(func(u *url.URL) {
		u.User = url.UserPassword(u.User.Username(), secret)
	}), "Access denied")
	wrong("no such database", changed(func(u *url.URL) { u.Path = "/nowhere" }), `Unknown database 'nowhere'`)
	wrong("no TLS", changed(func(u *url.URL) { u.RawQuery = "tls=true" }), "TLS")
	wrong("not MySQL", "postgres://ann:"+secret+"@127.0.0.1/shop", "mysql://")
	wrong("of the driver", "ann:"+secret+"@tcp(127.0.0.1)/shop", "mysql://")
	wrong("password not encoded", "mysql://ann:s3cr3t-#/x@127.0.0.1/shop", "mysql://")
	wrong("port no number", "mysql://ann:"+secret+"@127.0.0.1:x/shop", "cannot be parsed")
	wrong("no database", "mysql://ann:"+secret+"@127.0.0.1", "names no database")
	wrong("unknown setting", with("clientFoundRows=true"), `unknown setting "clientFoundRows"`)
	wrong("bad setting", with("tls=nonsense"), "tls")
	wrong("bad pool size", with("pool_max_conns=1"), "pool_max_conns")
	wrong("bad time", with("read_timeout=1s"), "read_timeout")
	wrong("bad query", with("tls=%"), "cannot be parsed")
	wrong("empty", "", "mysql://")
}

// deaf returns an address where connections are taken and nothing is said.
func deaf(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func open(t testing.TB, url string) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.Open(t.Context(), url, mysqlstore.Options{})
	return storetest.Kept(t, s, err)
}
