package e2e

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// deployed is where the samples are.
const deployed = "../../deploy"

// composeFile is what the tests read of deploy/compose.yaml.
type composeFile struct {
	Services map[string]composeService
	Networks map[string]struct {
		IPAM struct{ Config []struct{ Subnet string } }
	}
	Volumes map[string]any
}

type composeService struct {
	Image           string
	Build           struct{ Context, Dockerfile string }
	Command         []string
	Environment     map[string]string
	Ports           []string
	Volumes         []string
	ReadOnly        bool                                  `yaml:"read_only"`
	CapDrop         []string                              `yaml:"cap_drop"`
	SecurityOpt     []string                              `yaml:"security_opt"`
	StopGracePeriod string                                `yaml:"stop_grace_period"`
	DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
	Networks        map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
	Healthcheck struct{ Test []string }
}

// readCompose reads deploy/compose.yaml as if the .env file beside it had these
// variables.
func readCompose(t *testing.T, dotenv map[string]string) composeFile {
	t.Helper()
	text := readDeployed(t, "compose.yaml")
	text = regexp.MustCompile(`\$\{(\w+):\?\}`).ReplaceAllStringFunc(text, func(variable string) string {
		name := strings.Trim(variable, "${:?}")
		if dotenv[name] == "" {
			t.Errorf("compose.yaml: %s is not among the variables of docs/deploy.md", name)
		}
		return dotenv[name]
	})
	var file composeFile
	must.Succeed(t, yaml.Unmarshal([]byte(text), &file))
	return file
}

func readDeployed(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(deployed, name)))(t)
	return string(text)
}

// servers are the names of the services that are Sluice.
func (f *composeFile) servers() (names []string) {
	for name, s := range f.Services {
		if s.Build.Dockerfile != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// probe is the URL that a service's health check reads.
func (s *composeService) probe(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse(s.Healthcheck.Test[len(s.Healthcheck.Test)-1])
	if err != nil || u.Host == "" {
		t.Fatalf("health check %q reads no URL", s.Healthcheck.Test)
	}
	return u
}

// replaceAll replaces each text of the pairs, which must occur.
func replaceAll(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Errorf("there is no %q in %q", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// The processes and settings of deploy/compose.yaml: Redis, PostgreSQL, three
// servers, nginx with deploy/nginx.conf. Only addresses, ports and folders are
// other ones. They sell, also while one of the servers is killed.
func TestComposeSells(t *testing.T) {
	t.Parallel()
	shop := startCompose(t)
	ctx := t.Context()
	const total, perBuyer = 600, 2
	first := shop.servers[0]
	sale := createSale(t, first, total, perBuyer)
	awaitState(t, shop.servers, sale, sluice.StateOpen)

	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 1000, Again: 0.2, Connections: 16, TLS: shop.tls},
		[]string{shop.url, shop.url}, 61, 62)
	if !rush.awaitDecided(300) {
		t.Fatal("the rush was over too soon")
	}
	victim := shop.servers[1]
	victim.kill()
	victim.launch()
	rush.wait()
	shop.await(t, 1)
	verify(t, first, rush, total, perBuyer)

	shop.testEvents(t)
	shop.testAddresses(t)
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for target, want := range map[string]int{
		shop.url + "/s/" + string(sale): 200, shop.url + "/v1/admin/sales": 404, shop.url + "/metrics": 404,
		shop.plain + "/s/" + string(sale): 308,
	} {
		c := shop.buyer(t, "127.0.0.1")
		if strings.HasPrefix(target, shop.plain) {
			c = plain
		}
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, target, nil))(t)
		answer := must.Get(c.Do(request))(t)
		answer.Body.Close()
		if answer.StatusCode != want || want == 200 && answer.ProtoMajor != 2 {
			t.Errorf("%s: %s %s, want %d by HTTP/2", target, answer.Proto, answer.Status, want)
		}
	}
	for _, s := range shop.servers {
		if log := s.log(); strings.Contains(log, "level=WARN") && s != victim {
			t.Errorf("a server of the sample warns:\n%s", log)
		}
	}
}

// testEvents: a change of state comes through nginx at once.
func (c *compose) testEvents(t *testing.T) {
	sale := createSale(t, c.servers[0], 100, 10)
	shows := c.watch(t, sale)
	shows("open")
	must.Get(c.servers[0].merchant().PauseSale(t.Context(), sale))(t)
	shows("paused")
}

// testAddresses: an address limit counts who connects to nginx, and not what a
// buyer writes into a header.
func (c *compose) testAddresses(t *testing.T) {
	sale := newSaleID()
	must.Get(c.servers[0].merchant().CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(sale), SKU: "E2E-2", Title: "Another thing",
		Total: api.Value[int64](100), MaxPerBuyer: api.Value[int64](10),
		Price:   api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
		PatchRules: api.PatchRules{AddressRate: api.Value(sluice.AddressRate{Requests: 1, PerS: 3600})},
	}))(t)
	awaitState(t, c.servers, sale, sluice.StateOpen)
	place := func(n int, address string) error {
		b := buyer(t, c.url, sluice.BuyerID(fmt.Sprint("walker-", n)), client.Options{
			HTTPClient: c.buyer(t, address), PlaceAttempts: 1,
		})
		_, err := b.Place(t.Context(), sale, client.NewKey(), api.PlaceOrder{Quantity: 1})
		return err
	}
	limited := 0
	for n := range 2*len(c.servers) + 1 {
		if err := place(n, fmt.Sprintf("127.0.1.%d", n+1)); err != nil {
			t.Errorf("the first claim of an address: %v", err)
		}
		if client.CodeOf(place(n, "127.0.2.1")) == sluice.RateLimited.String() {
			limited++
		}
	}
	if limited < len(c.servers)+1 {
		t.Errorf("%d claims of one address were refused, want all but one per server", limited)
	}
}

// compose is the shop of the compose file at work.
type compose struct {
	servers    []*server
	healthy    []string // URL of each server's health check
	url, plain string   // of nginx: https and http
	tls        *tls.Config
}

func startCompose(t *testing.T) *compose {
	t.Helper()
	postgres := servertest.StartPostgres(t)
	at := must.Get(url.Parse(postgres.URL()))(t)
	password, _ := at.User.Password()
	file := readCompose(t, map[string]string{
		"POSTGRES_PASSWORD": password, "SLUICE_ADMIN_KEY": adminKey, "SLUICE_BUYER_SECRET": buyerSecret,
		"SLUICE_WEBHOOK_KEY": "e2e-webhook-key-0123456789abcdef",
	})
	command := file.Services["redis"].Command
	// Without them, Redis would be as careless as it is by default.
	redis := servertest.StartRedis(t, append([]string{
		"--appendonly", "no", "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru", "--maxmemory", "1gb",
	}, command[1:]...)...)

	shop := &compose{}
	proxy := file.Services["proxy"]
	conf := readDeployed(t, "nginx.conf")
	image := imageSettings(t)
	for _, name := range file.servers() {
		service := file.Services[name]
		s := newServer(t, backends{})
		admin := freeAddr(t)
		s.admin = "http://" + admin
		settings := map[string]string{}
		for _, from := range []map[string]string{image, service.Environment} {
			for variable, value := range from {
				settings[variable] = value
			}
		}
		_, public, _ := net.SplitHostPort(settings["SLUICE_LISTEN"])
		probe := service.probe(t)
		if probe.Port() != public {
			t.Errorf("%s: the health check asks port %s, the server listens on %s", name, probe.Port(), public)
		}
		conf = replaceAll(t, conf, name+":"+public, s.addr)
		probe.Host = s.addr
		settings["SLUICE_LISTEN"], settings["SLUICE_ADMIN_LISTEN"] = s.addr, admin
		settings["SLUICE_ADMIN_URL"], settings["SLUICE_DATA_DIR"] = s.admin, s.dir
		settings["SLUICE_LEDGER"] = replaceAll(t, settings["SLUICE_LEDGER"], "redis:6379", redis.Addr())
		settings["SLUICE_STORE"] = replaceAll(t, settings["SLUICE_STORE"], "postgres:5432", at.Host)
		settings["SLUICE_TRUSTED_PROXIES"] = replaceAll(t, settings["SLUICE_TRUSTED_PROXIES"],
			proxy.Networks["default"].Address, "127.0.0.1")
		s.on = backends{settings["SLUICE_LEDGER"], settings["SLUICE_STORE"]}
		s.env = []string{"PATH=" + os.Getenv("PATH")}
		for variable, value := range settings {
			s.env = append(s.env, variable+"="+value)
		}
		s.launch()
		shop.servers, shop.healthy = append(shop.servers, s), append(shop.healthy, probe.String())
	}
	for i := range shop.servers {
		shop.await(t, i)
	}

	certificates, trust := certify(t)
	shop.tls = trust
	secure, plain := freeAddr(t), freeAddr(t)
	servertest.StartNginx(t, replaceAll(t, conf, "listen 443", "listen "+secure, "listen 80", "listen "+plain,
		"/etc/nginx/tls", certificates), secure)
	shop.url, shop.plain = "https://"+secure, "http://"+plain
	probe := proxy.probe(t)
	probe.Host = plain
	shop.healthy = append(shop.healthy, probe.String())
	shop.await(t, len(shop.servers))
	return shop
}

// certify returns a folder with cert.pem and key.pem, for 127.0.0.1, and the settings of
// a client that trusts them.
func certify(t *testing.T) (folder string, trust *tls.Config) {
	t.Helper()
	authority := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(authority.Close)
	trust = authority.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	folder = t.TempDir()
	key := must.Get(x509.MarshalPKCS8PrivateKey(authority.TLS.Certificates[0].PrivateKey))(t)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600))
	}
	return folder, trust
}

// await waits until the i-th health check succeeds: the last is that of nginx.
func (c *compose) await(t *testing.T, i int) {
	t.Helper()
	await(t, "a healthy answer of "+c.healthy[i], func() bool {
		answer, err := http.Get(c.healthy[i])
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// buyer returns a client with this address that claims to have another one.
func (c *compose) buyer(t *testing.T, address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: forging{transport}, Timeout: patience}
}

// forging adds headers that name an address of the client's choice, each time
// another one.
type forging struct{ http.RoundTripper }

func (f forging) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", time.Now().UnixNano()%250))
	return f.RoundTripper.RoundTrip(r)
}

// watch opens the sale's event stream through nginx, and returns what waits
// until it shows a state.
func (c *compose) watch(t *testing.T, sale sluice.SaleID) (shows func(state string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/v1/sales/"+string(sale)+"/events", nil))(t)
	stream := c.buyer(t, "127.0.0.1")
	stream.Timeout = 0
	answer, err := stream.Do(request)
	if err != nil {
		t.Fatal(cmp.Or(ctx.Err(), err))
	}
	t.Cleanup(func() {
		cancel()
		answer.Body.Close()
	})
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Errorf("event stream: %s %s", answer.Proto, answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	return func(state string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data:") && strings.Contains(lines.Text(), `"state":"`+state+`"`) {
				return
			}
		}
		t.Errorf("the event stream ended before it showed %s: %v", state, lines.Err())
	}
}
