package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/machine"
)

// A backend is what a server keeps its sales in.
type backend struct {
	name            string
	redis, postgres bool
	ledger          string  // URL, where it is neither a Redis nor embedded
	accepted        float64 // goal: orders a second, of the side that it is compared with
}

var (
	embedded = backend{name: "embedded", accepted: 0.9}
	servers  = backend{name: "Redis (fsync always) and PostgreSQL", redis: true, postgres: true, accepted: 0.85}
	alone    = backend{name: "PostgreSQL alone", postgres: true, ledger: "store", accepted: 0.7}

	backends = []backend{embedded, servers, alone}
)

// backing is a backend for one round, new and empty.
type backing struct {
	config serveConfig
	pids   map[string]int // of its servers
	dirs   []string       // what it has on disk, but for the schema
	schema string         // URL
	ends   []func()
}

func (b *backing) close() {
	for _, end := range b.ends {
		end()
	}
}

// open starts what servers that share a backend need. Database is the group's.
func (b *backend) open(ctx context.Context, r *round, secret string, d *database) (k *backing, err error) {
	k = &backing{pids: map[string]int{}, config: serveConfig{
		DataDir: filepath.Join(r.dir, "data"), AdminKey: "the merchant's key of a benchmark", BuyerSecret: secret,
	}}
	k.config.Ledger = b.ledger
	k.dirs = append(k.dirs, k.config.DataDir)
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if b.redis {
		redis, err := startRedis(r.dir, "always")
		if err != nil {
			return k, err
		}
		k.ends = append(k.ends, func() { _ = redis.Close() })
		k.config.Ledger, k.pids["redis"] = redis.URL(), redis.Pid()
		k.dirs = append(k.dirs, redis.Dir())
	}
	if b.postgres {
		in, drop, err := d.newSchema(ctx)
		if err != nil {
			return k, err
		}
		k.ends = append(k.ends, drop)
		k.config.Store, k.schema, k.pids[postgres] = in, in, d.master
	}
	return k, nil
}

// start starts a server on it with the sale of the benchmark.
func (k *backing) start(ctx context.Context, total int64) (*process, error) {
	p, err := startServer(ctx, k.config)
	if err != nil {
		return nil, err
	}
	if err := p.createSale(ctx, shopSale, total); err != nil {
		p.stop()
		return nil, err
	}
	p.also = k.pids
	return p, nil
}

// bytes is what it has on disk.
func (k *backing) bytes(ctx context.Context) (sum int64, err error) {
	for _, dir := range k.dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				sum += info.Size()
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if k.schema != "" {
		rows, err := queryNumber(ctx, k.schema, `SELECT COALESCE(sum(pg_total_relation_size(c.oid)), 0)::bigint
			FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace`)
		if err != nil {
			return 0, err
		}
		sum += rows
	}
	return sum, nil
}

// database is the PostgreSQL server of a group.
type database struct {
	server  *servertest.PostgresServer
	master  int // its first process
	schemas atomic.Int64
}

func openDatabase(ctx context.Context, o *options) (*database, error) {
	// Beside the folder of the rounds, which the user postgres cannot enter.
	server, err := servertest.NewPostgres(filepath.Dir(o.dir))
	if err != nil {
		return nil, err
	}
	d := &database{server: server}
	if o.aged {
		err = d.age(ctx)
	}
	if err = errors.Join(err, d.find(ctx)); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// find notes its first process.
func (d *database) find(ctx context.Context) error {
	pid, err := queryNumber(ctx, d.server.URL(), "SELECT pg_backend_pid()")
	d.master = machine.Parent(int(pid))
	return err
}

// roomy lets it use a quarter of the memory, as PostgreSQL's manual advises for a server of
// its own: the default does not hold an index of millions of orders.
func (d *database) roomy(ctx context.Context) error {
	err := execute(ctx, d.server.URL(),
		fmt.Sprintf("ALTER SYSTEM SET shared_buffers = '%.0fMB'", machine.MemoryGB()*1024/4), "CHECKPOINT")
	return errors.Join(err, d.server.Halt(), d.server.Resume(), d.find(ctx))
}

// age makes it a database that has been in use: it keeps a gigabyte of old log to write
// over. A new one makes a file of 16 MB and syncs it, once or twice a second in a rush,
// while commits wait.
func (d *database) age(ctx context.Context) error {
	const files = 64
	statements := []string{
		"ALTER SYSTEM SET min_wal_size = '1GB'", "ALTER SYSTEM SET max_wal_size = '4GB'",
		"SELECT pg_reload_conf()", "CREATE TABLE aged (n int)",
	}
	for range files {
		statements = append(statements, "INSERT INTO aged VALUES (1)", "SELECT pg_switch_wal()")
	}
	return execute(ctx, d.server.URL(), append(statements, "CHECKPOINT")...)
}

func (d *database) close() { _ = d.server.Close() }

// newSchema makes an empty schema, and returns its URL and a function that drops it.
func (d *database) newSchema(ctx context.Context) (in string, drop func(), err error) {
	name := fmt.Sprintf("round_%d", d.schemas.Add(1))
	if err := execute(ctx, d.server.URL(), "CREATE SCHEMA "+name); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(d.server.URL())
	if err != nil {
		return "", nil, err
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return u.String(), func() {
		_ = execute(context.WithoutCancel(ctx), d.server.URL(), "DROP SCHEMA "+name+" CASCADE")
	}, nil
}

func execute(ctx context.Context, in string, statements ...string) error {
	conn, err := pgx.Connect(ctx, in)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func queryNumber(ctx context.Context, in, query string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, in)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// rows is how many rows a floor has stored.
func (k *backing) rows(ctx context.Context) (int64, error) {
	return queryNumber(ctx, k.schema, "SELECT count(*) FROM orders")
}

// awaitRows returns when a floor has stored as many rows, or more: buyers may repeat.
func (k *backing) awaitRows(ctx context.Context, n int64) error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		have, err := k.rows(ctx)
		if err != nil || have >= n {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d rows are stored of %d", have, n)
		}
	}
}

// startBareStore starts one on the backend, which answers the constant.
func (k *backing) startBareStore(ctx context.Context, answer *constant) (*process, error) {
	k.config.Constant, k.config.Durable, k.config.Verifies = answer, true, true
	p, err := startServer(ctx, k.config)
	if err == nil {
		p.also = k.pids
	}
	return p, err
}
