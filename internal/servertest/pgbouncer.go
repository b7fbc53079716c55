package servertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/must"
)

// PgBouncer returns what makes a URL of the server lead through a PgBouncer of
// the test's own. It gives each transaction whichever of a few connections is
// free (pool_mode=transaction), and is otherwise as it comes.
func PgBouncer(t testing.TB, s *PostgresServer) (via func(url string) string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			Unavailable(t, "pgbouncer", "no pgbouncer on the PATH or in /usr/sbin")
		}
	}
	dir := must.Get(os.MkdirTemp("", "sluice-pgbouncer-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	port := must.Get(FreePort())(t)
	users := filepath.Join(dir, "users")
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 8
`, s.port, testUser, testPassword, port, users)
	for path, text := range map[string]string{
		filepath.Join(dir, "ini"): config, users: strconv.Quote(testUser) + ` ""` + "\n",
	} {
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
	must.Succeed(t, giveToPostgres(dir))
	via = func(text string) string {
		u := must.Get(url.Parse(text))(t)
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return u.String()
	}
	b := &supervised{name: "pgbouncer", dir: dir, last: "KILL"}
	line := asPostgres(program, filepath.Join(dir, "ini"))
	must.Succeed(t, b.start(line, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, via(s.URL()))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}))
	t.Cleanup(func() {
		if err := b.end("KILL"); err != nil {
			t.Error(err)
		}
	})
	return via
}
