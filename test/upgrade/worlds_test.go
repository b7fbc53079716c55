package upgrade

import (
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/mysqlstore"
	_ "github.com/sluicehq/sluice/store/pgstore"
	_ "modernc.org/sqlite"
)

// A world is where an engine has its data: empty, or as a fixture has it.
type world struct {
	config engine.Config
	parts  []part
}

// A part is one of its databases.
type part interface {
	save(t *testing.T, fixture string)
	load(t *testing.T, fixture string)
	run(t *testing.T, statement string) // SQL; only of a store
}

// worlds are the ways to keep a shop's data.
var worlds = map[string]func(t *testing.T) world{
	"embedded": func(t *testing.T) world {
		dir := t.TempDir()
		return world{engine.Config{DataDir: dir}, []part{folder(dir)}}
	},
	"redis-postgres": func(t *testing.T) world {
		r, p := servertest.StartRedis(t), servertest.Postgres(t)
		return world{engine.Config{Ledger: r.URL(), Store: p}, []part{postgres(p), redis(r.Addr())}}
	},
	"redis-mariadb": func(t *testing.T) world {
		r, m := servertest.StartRedis(t), servertest.MySQL(t)
		return world{engine.Config{Ledger: r.URL(), Store: m}, []part{mariadb(m), redis(r.Addr())}}
	},
	"postgres": func(t *testing.T) world {
		p := servertest.Postgres(t)
		return world{engine.Config{Ledger: "store", Store: p}, []part{postgres(p)}}
	},
}

// folder is the data folder of an embedded server.
type folder string

func (f folder) save(t *testing.T, fixture string) {
	for _, name := range []string{"ledger.db", "store.db"} {
		f.in(t, name, "VACUUM")
	}
	copied(t, string(f), fixture)
}

func (f folder) load(t *testing.T, fixture string) { copied(t, fixture, string(f)) }

func copied(t *testing.T, from, to string) {
	t.Helper()
	files := must.Get(os.ReadDir(from))(t)
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "lock") {
			continue
		}
		content := must.Get(os.ReadFile(filepath.Join(from, file.Name())))(t)
		must.Succeed(t, os.WriteFile(filepath.Join(to, file.Name()), content, 0o600))
	}
}

func (f folder) run(t *testing.T, statement string) { f.in(t, "store.db", statement) }

func (f folder) in(t *testing.T, file, statement string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(string(f), file)))(t)
	defer db.Close()
	must.Get(db.Exec(statement))(t)
	must.Get(db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
}

// postgres is the URL of a schema of a database. The fixture is a dump by pg_dump, of a
// schema with the name of fixtureSchema.
type postgres string

const fixtureSchema = "sluice_fixture"

func (p postgres) schema(t *testing.T) (name, base string) {
	t.Helper()
	u := must.Get(url.Parse(string(p)))(t)
	query := u.Query()
	name = query.Get("search_path")
	query.Del("search_path")
	u.RawQuery = query.Encode()
	return name, u.String()
}

func (p postgres) save(t *testing.T, fixture string) {
	name, base := p.schema(t)
	dump := output(t, "pg_dump", "--inserts", "--no-owner", "--no-privileges", "--no-comments", "--schema="+name, base)
	lines := slices.DeleteFunc(strings.Split(strings.ReplaceAll(dump, name, fixtureSchema), "\n"), func(line string) bool {
		// Of psql, of the schema that is there, and of settings that the session keeps.
		return strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "--") || strings.HasPrefix(line, "CREATE SCHEMA") ||
			strings.HasPrefix(line, "SET ") || line == ""
	})
	must.Succeed(t, os.WriteFile(filepath.Join(fixture, "postgres.sql"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func (p postgres) load(t *testing.T, fixture string) {
	name, _ := p.schema(t)
	dump := must.Get(os.ReadFile(filepath.Join(fixture, "postgres.sql")))(t)
	p.run(t, strings.ReplaceAll(string(dump), fixtureSchema, name))
}

func (p postgres) run(t *testing.T, statements string) {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), string(p)))(t)
	defer conn.Close(t.Context())
	must.Get(conn.PgConn().Exec(t.Context(), statements).ReadAll())(t)
}

// mariadb is the URL of a database. The fixture is a dump by mariadb-dump.
type mariadb string

func (m mariadb) config(t *testing.T) *mysql.Config {
	t.Helper()
	u := must.Get(url.Parse(string(m)))(t)
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	c.MultiStatements, c.Params = true, map[string]string{"time_zone": "'+00:00'"}
	return c
}

func (m mariadb) save(t *testing.T, fixture string) {
	c := m.config(t)
	host, port, _ := strings.Cut(c.Addr, ":")
	dump := output(t, "mariadb-dump", "--protocol=tcp", "--host="+host, "--port="+port, "--user="+c.User,
		"--password="+c.Passwd, "--skip-comments", "--skip-add-locks", "--hex-blob", c.DBName)
	must.Succeed(t, os.WriteFile(filepath.Join(fixture, "mariadb.sql"), []byte(dump), 0o600))
}

func (m mariadb) load(t *testing.T, fixture string) {
	dump := must.Get(os.ReadFile(filepath.Join(fixture, "mariadb.sql")))(t)
	m.run(t, string(dump))
}

func (m mariadb) run(t *testing.T, statements string) {
	t.Helper()
	db := must.Get(sql.Open("mysql", m.config(t).FormatDSN()))(t)
	defer db.Close()
	must.Get(db.Exec(statements))(t)
}

// redis is the address of a server. The fixture has what DUMP says of each key that does
// not expire.
type redis string

func (r redis) do(t *testing.T, do func(c rueidis.Client)) {
	t.Helper()
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{string(r)}, DisableCache: true}))(t)
	defer c.Close()
	do(c)
}

func (r redis) save(t *testing.T, fixture string) {
	r.do(t, func(c rueidis.Client) {
		keys := must.Get(c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice())(t)
		dumps := map[string][]byte{}
		for _, key := range keys {
			ttl := must.Get(c.Do(t.Context(), c.B().Pttl().Key(key).Build()).AsInt64())(t)
			if ttl < 0 {
				dumps[key] = must.Get(c.Do(t.Context(), c.B().Dump().Key(key).Build()).AsBytes())(t)
			}
		}
		content := must.Get(json.MarshalIndent(dumps, "", "\t"))(t)
		must.Succeed(t, os.WriteFile(filepath.Join(fixture, "redis.json"), content, 0o600))
	})
}

func (r redis) load(t *testing.T, fixture string) {
	content := must.Get(os.ReadFile(filepath.Join(fixture, "redis.json")))(t)
	var dumps map[string][]byte
	must.Succeed(t, json.Unmarshal(content, &dumps))
	r.do(t, func(c rueidis.Client) {
		for key, dump := range dumps {
			must.Succeed(t, c.Do(t.Context(), c.B().Restore().Key(key).Ttl(0).SerializedValue(string(dump)).Build()).Error())
		}
	})
}

func (redis) run(t *testing.T, _ string) { t.Fatal("Redis knows no SQL") }

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out, failed strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, &failed)
	}
	return out.String()
}
