package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// These tests check the samples in deploy/ without their container engines:
// every setting, path, port and name in them exists. TestComposeSells runs one.

// loadSettings reads settings as a server does: unknown ones are errors.
func loadSettings(t *testing.T, where string, from ...map[string]string) *config.Config {
	t.Helper()
	var environ []string
	for _, settings := range from {
		for variable, value := range settings {
			environ = append(environ, variable+"="+value)
		}
	}
	c, err := config.Load(config.Source{Environ: environ})
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return c
}

// isRoute fails the test unless the server answers GET for the path.
func isRoute(t *testing.T, where, path string) {
	t.Helper()
	if !slices.ContainsFunc(httpapi.Routes(), func(r httpapi.Route) bool { return r.Pattern == "GET "+path }) {
		t.Errorf("%s: the server has no path %q", where, path)
	}
}

// has fails the test for each text that a sample lacks.
func has(t *testing.T, name, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s has no %q", name, want)
		}
	}
}

// instructions are those of deploy/Dockerfile, in order.
func instructions(t *testing.T) (all [][2]string) {
	t.Helper()
	for line := range strings.Lines(readDeployed(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			word, rest, _ := strings.Cut(line, " ")
			all = append(all, [2]string{word, rest})
		}
	}
	return all
}

// imageSettings are the variables that the image sets.
func imageSettings(t *testing.T) map[string]string {
	t.Helper()
	settings := map[string]string{}
	for _, line := range instructions(t) {
		if line[0] == "ENV" {
			for pair := range strings.FieldsSeq(line[1]) {
				name, value, _ := strings.Cut(pair, "=")
				settings[name] = value
			}
		}
	}
	return settings
}

func TestDockerfile(t *testing.T) {
	settings := loadSettings(t, "Dockerfile", imageSettings(t))
	last, stages := map[string]string{}, ""
	for _, line := range instructions(t) {
		switch word, rest := line[0], line[1]; word {
		case "FROM":
			last = map[string]string{"FROM": rest}
			if _, stage, ok := strings.Cut(rest, " AS "); ok {
				stages += stage
				module := must.Get(os.ReadFile("../../go.mod"))(t)
				version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)[1]
				has(t, "Dockerfile: "+rest, rest, "golang:"+string(version))
			}
		case "COPY":
			if _, from, ok := strings.Cut(rest, "--from="); ok && !strings.HasPrefix(from, stages+" ") {
				t.Errorf("Dockerfile: COPY %s: the stages are %q", rest, stages)
			}
		case "RUN", "ARG", "WORKDIR", "ENV":
			last[word] += rest + "\n"
		case "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD":
			last[word] = rest
		default:
			t.Errorf("Dockerfile: the test does not know %s", word)
		}
	}
	_, port, _ := strings.Cut(settings.Listen, ":")
	for word, want := range map[string]string{
		"USER": "65532:65532", "VOLUME": settings.DataDir, "EXPOSE": port, "ENTRYPOINT": `["sluice"]`, "CMD": `["serve"]`,
	} {
		if last[word] != want {
			t.Errorf("Dockerfile: %s %s, want %s", word, last[word], want)
		}
	}
	has(t, "Dockerfile", last["RUN"], "-o 65532 -g 65532 "+settings.DataDir)
	has(t, "Dockerfile", readDeployed(t, "Dockerfile"), "CGO_ENABLED=0 go build", "./cmd/sluice", "-X main.version=")
}

func TestComposeFile(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := readCompose(t, map[string]string{
		"POSTGRES_PASSWORD": secret, "SLUICE_ADMIN_KEY": secret, "SLUICE_BUYER_SECRET": secret, "SLUICE_WEBHOOK_KEY": secret,
	})
	image, proxy := imageSettings(t), file.Services["proxy"]
	subnet := must.Get(netip.ParsePrefix(file.Networks["default"].IPAM.Config[0].Subnet))(t)
	names := file.servers()
	if len(names) != 3 {
		t.Errorf("the servers are %v, want three", names)
	}
	addresses, folders := map[string]bool{}, map[string]bool{}
	for name, s := range file.Services {
		for other, on := range s.DependsOn {
			if len(file.Services[other].Healthcheck.Test) == 0 || on.Condition != "service_healthy" {
				t.Errorf("%s waits for %s (%s), which has no health check", name, other, on.Condition)
			}
		}
		for _, volume := range s.Volumes {
			from, to, _ := strings.Cut(volume, ":")
			if _, declared := file.Volumes[from]; folders[from] || !declared && from[0] != '.' {
				t.Errorf("%s: volume %s is not declared or used twice", name, from)
			}
			folders[from] = true
			if from[0] == '.' && from != "./tls" {
				readDeployed(t, from)
			}
			if slices.Contains(names, name) && to != image["SLUICE_DATA_DIR"] {
				t.Errorf("%s: the data folder is not on a volume", name)
			}
		}
		if text := s.Networks["default"].Address; text != "" {
			address, err := netip.ParseAddr(text)
			if err != nil || !subnet.Contains(address) || addresses[text] {
				t.Errorf("%s: address %s is not one of its own in %s", name, text, subnet)
			}
			addresses[text] = true
		}
	}
	for _, name := range names {
		s := file.Services[name]
		settings := loadSettings(t, name, image, s.Environment)
		isRoute(t, name, s.probe(t).Path)
		if settings.Node != name || settings.AdminKey != secret || settings.BuyerSecret != secret ||
			settings.WebhookKey != secret {
			t.Errorf("%s: wants its own name and the secrets of all", name)
		}
		if got := settings.TrustedProxies; len(got) != 1 || got[0].Addr().String() != proxy.Networks["default"].Address {
			t.Errorf("%s trusts %v, want the proxy's address", name, got)
		}
		if grace, err := time.ParseDuration(s.StopGracePeriod); err != nil || grace <= settings.ShutdownTimeout {
			t.Errorf("%s is killed before its shutdown timeout of %s", name, settings.ShutdownTimeout)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may write to its root file system or gain rights", name)
		}
		if at, err := url.Parse(settings.Store); err != nil || len(s.Ports) > 0 ||
			at.User.String() != file.Services["postgres"].Environment["POSTGRES_USER"]+":"+secret ||
			at.Path != "/"+file.Services["postgres"].Environment["POSTGRES_DB"] {
			t.Errorf("%s: store %s is not the database of the service postgres, or a port is open", name, settings.Store)
		}
		has(t, "nginx.conf", readDeployed(t, "nginx.conf"), "server "+name+settings.Listen+" fail_timeout=2s;")
		has(t, "Caddyfile", readDeployed(t, "Caddyfile"), name+settings.Listen+" ")
	}
	has(t, "deploy.md", read(t, "../../docs/deploy.md"), "`fail_timeout=2s`") // what restarts wait for
	isRoute(t, "proxy", proxy.probe(t).Path)
}

// nginx itself checks the rest in TestComposeSells.
func TestNginxLocations(t *testing.T) {
	text := readDeployed(t, "nginx.conf")
	want := map[string][]string{
		"proxy_cache sales;":   {"GET /v1/sales", "GET /v1/sales/{sale}"},
		"proxy_buffering off;": {"GET /v1/sales/{sale}/events"},
	}
	for _, block := range regexp.MustCompile(`(?s)location ~ (\S+) \{(.*?)\n {8}\}`).FindAllStringSubmatch(text, -1) {
		location := regexp.MustCompile(block[1])
		for directive, routes := range want {
			if !strings.Contains(block[2], directive) {
				continue
			}
			delete(want, directive)
			for _, route := range httpapi.Routes() {
				method, path, ok := strings.Cut(strings.NewReplacer("{", "", "}", "").Replace(route.Pattern), " ")
				if ok && method == "GET" && location.MatchString(path) != slices.Contains(routes, route.Pattern) {
					t.Errorf("nginx.conf: %q for %s: %v", directive, route.Pattern, location.MatchString(path))
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("nginx.conf: no location has %v", want)
	}
}

// Whatever clients write into paths, queries and headers, nginx asks the server once for each of the two
// encodings of an answer, and sends nobody to a host of their choice.
func TestNginxCache(t *testing.T) {
	t.Parallel()
	var asked sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := r.RequestURI + " " + r.Header.Get("Accept-Encoding") + " " + r.Header.Get("Origin")
		if _, again := asked.LoadOrStore(seen, true); again {
			t.Errorf("asked twice for %s", seen)
		}
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Vary", "Accept-Encoding, Origin")
		_, _ = io.WriteString(w, seen)
	}))
	t.Cleanup(server.Close)
	certificates, trust := certify(t)
	secure, plain := freeAddr(t), freeAddr(t)
	upstream := strings.TrimPrefix(server.URL, "http://")
	servertest.StartNginx(t, replaceAll(t, readDeployed(t, "nginx.conf"), "sluice-1:8080", upstream,
		"sluice-2:8080", upstream, "sluice-3:8080", upstream, "listen 443", "listen "+secure, "listen 80", "listen "+plain,
		"/etc/nginx/tls", certificates), secure)
	c := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: trust, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ask := func(url string, headers ...string) (*http.Response, string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		for header := range slices.Chunk(headers, 2) {
			if r.Header.Set(header[0], header[1]); header[0] == "Host" {
				r.Host = header[1]
			}
		}
		answer := must.Get(c.Do(r))(t)
		defer answer.Body.Close()
		return answer, string(must.Get(io.ReadAll(answer.Body))(t))
	}
	for _, path := range []string{
		"/v1/sales/phone", "/v1/sales/%70hone", "/v1//sales/phone", "/v1/x/../sales/phone", "/v1/sales/phone?a",
		"/v1/sales/phone?b=1",
	} {
		for i, accepts := range []string{"", "br", "gzip;q=0", "identity, gzip ; q=0.0", "x-1"} {
			host := fmt.Sprintf("host-%d.example", i)
			if _, got := ask("https://"+secure+path, "Accept-Encoding", accepts, "Origin", "https://"+host,
				"Host", host); got != "/v1/sales/phone  " {
				t.Errorf("%s, Accept-Encoding %q: asked for %s", path, accepts, got)
			}
		}
		for _, accepts := range []string{"gzip", "gzip, deflate, br, zstd", "br;q=0, GZIP;q=0.5"} {
			if _, got := ask("https://"+secure+path, "Accept-Encoding", accepts); got != "/v1/sales/phone gzip " {
				t.Errorf("%s, Accept-Encoding %q: asked for %s", path, accepts, got)
			}
		}
	}
	for _, path := range []string{"/v1/sales/phone%0d%0aX:%20y", "/v1/sales/phone%0a", "/v1/sales/%7e"} {
		if _, got := ask("https://" + secure + path); got != path+"  " {
			t.Errorf("%s: asked for %q", path, got)
		}
	}
	for _, host := range []string{"shop.example", "evil.example"} {
		answer, _ := ask("http://"+plain+"/s/phone?lang=zh", "Host", host)
		if to := answer.Header.Get("Location"); answer.StatusCode != 308 || to != "https://shop.example/s/phone?lang=zh" {
			t.Errorf("%s: %d, to %s", host, answer.StatusCode, to)
		}
	}
}

func TestCaddyfile(t *testing.T) {
	text := readDeployed(t, "Caddyfile")
	if open, closed := strings.Count(text, "{\n"), strings.Count(text, "}\n"); open != closed {
		t.Errorf("Caddyfile: %d blocks begin, %d end", open, closed)
	}
	isRoute(t, "Caddyfile", regexp.MustCompile(`health_uri (\S+)`).FindStringSubmatch(text)[1])
	if caddy, err := exec.LookPath("caddy"); err == nil {
		validate := exec.Command(caddy, "validate", "--adapter", "caddyfile", "--config", deployed+"/Caddyfile")
		if out, err := validate.CombinedOutput(); err != nil {
			t.Errorf("caddy validate: %v\n%s", err, out)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	text := readDeployed(t, "sluice.service")
	service := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			service[name] = value
		}
	}
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": "",
		"ExecStart": "sluice serve", "Environment": "SLUICE_DATA_DIR=%S/" + service["StateDirectory"],
	} {
		if got, ok := service[name]; !ok || got != want {
			t.Errorf("sluice.service: %s=%s, want %s", name, got, want)
		}
	}
	stop, err := strconv.Atoi(service["TimeoutStopSec"])
	if err != nil || time.Duration(stop)*time.Second <= loadSettings(t, "defaults").ShutdownTimeout {
		t.Errorf("sluice.service: TimeoutStopSec=%s is not longer than shutdown_timeout", service["TimeoutStopSec"])
	}
	guide := snippets(t, "docs/deploy.md")
	settings := map[string]string{}
	for line := range strings.Lines(next(t, &guide, "sh", "sluice.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "SLUICE_") {
			settings[name] = strings.ReplaceAll(value, "$(openssl rand -hex 32)", "0123456789abcdef0123456789abcdef")
		}
	}
	if c := loadSettings(t, "deploy.md", settings); c.AdminListen == c.Listen || c.AdminKey == "" {
		t.Errorf("deploy.md: listeners %s and %s", c.Listen, c.AdminListen)
	}
	packaged := map[string]string{"SLUICE_ADMIN_KEY": adminKey, "SLUICE_BUYER_SECRET": buyerSecret}
	for line := range strings.Lines(readDeployed(t, "package/sluice.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			packaged[strings.TrimPrefix(name, "#")] = value
		}
	}
	if c := loadSettings(t, "package/sluice.env", packaged); c.Listen != ":8080" || c.AdminListen == "" {
		t.Errorf("package/sluice.env: listeners %s and %s", c.Listen, c.AdminListen)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	unit := filepath.Join(t.TempDir(), "sluice.service")
	must.Succeed(t, os.WriteFile(unit, []byte(replaceAll(t, text, "ExecStart=sluice", "ExecStart="+binary)), 0o600))
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// A job of a release may write what it is for, and one that publishes or signs runs nothing of this repository or
// of its modules.
func TestReleaseHasLeastRights(t *testing.T) {
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []struct{ Uses, Run string }
		}
	}
	must.Succeed(t, yaml.Unmarshal(must.Get(os.ReadFile("../../.github/workflows/release.yml"))(t), &workflow))
	may := map[string][]string{
		"image": {"packages"}, "sign": {"attestations", "id-token", "packages"}, "publish": {"contents"},
	}
	if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
		t.Errorf("release.yml: by default %v", workflow.Permissions)
	}
	for name, job := range workflow.Jobs {
		var writes []string
		for right, level := range job.Permissions {
			if level == "write" {
				writes = append(writes, right)
			}
		}
		if slices.Sort(writes); !slices.Equal(writes, may[name]) {
			t.Errorf("release.yml: the job %s may write %v, want %v", name, writes, may[name])
		}
		for _, step := range job.Steps {
			if name != "sign" && name != "publish" {
				continue
			}
			if strings.HasPrefix(step.Uses, "actions/checkout@") || regexp.MustCompile(`\b(go|make) `).MatchString(step.Run) {
				t.Errorf("release.yml: the job %s runs %s%s", name, step.Uses, step.Run)
			}
		}
	}
}

// object is what the tests read of an object in deploy/kubernetes.yaml.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Replicas int
		Selector yaml.Node
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int            `yaml:"terminationGracePeriodSeconds"`
				Security   map[string]any `yaml:"securityContext"`
				Containers []container
				Volumes    []struct{ Name string }
			}
		}
		Ports []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
		}
		Endpoints []struct{ Port, Path string }

		Pods    yaml.Node `yaml:"podSelector"` // of a NetworkPolicy
		Types   []string  `yaml:"policyTypes"`
		Ingress []struct {
			From  []map[string]any
			Ports []struct{ Port string }
		}
	}
}

type container struct {
	Name, Image string
	Security    map[string]any `yaml:"securityContext"`
	EnvFrom     []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Env []struct {
		Name, Value string
		ValueFrom   any `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Startup   probe `yaml:"startupProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Lifecycle struct {
		PreStop struct{ Exec struct{ Command []string } } `yaml:"preStop"`
	}
	Mounts []struct {
		Name string
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

func TestKubernetes(t *testing.T) {
	objects := map[string]object{}
	decoder := yaml.NewDecoder(strings.NewReader(readDeployed(t, "kubernetes.yaml")))
	for {
		var o object
		if err := decoder.Decode(&o); err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		objects[o.Kind+"/"+o.Metadata.Name] = o
	}
	for _, name := range []string{
		"Secret/sluice", "Deployment/sluice", "PodDisruptionBudget/sluice", "Service/sluice", "Service/sluice-admin",
		"ServiceMonitor/sluice", "NetworkPolicy/sluice",
	} {
		if _, ok := objects[name]; !ok {
			t.Fatalf("kubernetes.yaml has no %s", name)
		}
	}
	deployment := objects["Deployment/sluice"].Spec
	pod := deployment.Template.Spec
	server := pod.Containers[0]

	secret := objects["Secret/"+server.EnvFrom[0].SecretRef.Name].StringData
	unset := []string{"SLUICE_ADMIN_KEY=" + secret["SLUICE_ADMIN_KEY"]}
	if _, err := config.Load(config.Source{Environ: unset}); err == nil {
		t.Error("kubernetes.yaml: a server accepts the key that stands for one")
	}
	settings := map[string]string{"SLUICE_NODE": "sluice-7d9f8b6c5-x2x4z"}
	for name, value := range secret {
		settings[name] = strings.ReplaceAll(value, "REPLACE ME", "0123456789abcdef")
	}
	for _, env := range server.Env {
		if env.ValueFrom == nil {
			settings[env.Name] = env.Value
		}
	}
	c := loadSettings(t, "kubernetes.yaml", imageSettings(t), settings)
	port := func(name string) string { // as the listener's setting has it
		for _, p := range server.Ports {
			if p.Name == name {
				return fmt.Sprintf(":%d", p.ContainerPort)
			}
		}
		return "no port " + name
	}
	if port("http") != c.Listen || port("admin") != c.AdminListen {
		t.Errorf("kubernetes.yaml: ports %v, the server listens on %s and %s", server.Ports, c.Listen, c.AdminListen)
	}
	for _, p := range []probe{server.Startup, server.Readiness, server.Liveness} {
		isRoute(t, "kubernetes.yaml", p.Get.Path)
		if port(p.Get.Port) != c.Listen {
			t.Errorf("kubernetes.yaml: a probe asks port %s", p.Get.Port)
		}
	}
	if server.Security["readOnlyRootFilesystem"] != true || server.Security["allowPrivilegeEscalation"] != false ||
		pod.Security["runAsNonRoot"] != true {
		t.Error("kubernetes.yaml: the container may write to its root file system or gain rights")
	}
	sleep, err := strconv.Atoi(server.Lifecycle.PreStop.Exec.Command[1])
	if err != nil || time.Duration(pod.Grace-sleep)*time.Second <= c.ShutdownTimeout {
		t.Errorf("kubernetes.yaml: a pod is killed before its shutdown timeout of %s", c.ShutdownTimeout)
	}
	if len(server.Mounts) != 1 || server.Mounts[0].Path != c.DataDir || server.Mounts[0].Name != pod.Volumes[0].Name {
		t.Errorf("kubernetes.yaml: the data folder is not on a volume: %+v", server.Mounts)
	}
	// selects reports whether the object's selector, in either form, fits labels.
	selects := func(name string, labels map[string]string) {
		t.Helper()
		node := objects[name].Spec.Selector
		if node.IsZero() {
			node = objects[name].Spec.Pods
		}
		var form struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		want := map[string]string{}
		if err := node.Decode(&form); err == nil && form.MatchLabels != nil {
			want = form.MatchLabels
		} else if err := node.Decode(&want); err != nil {
			t.Fatal(err)
		}
		for label, value := range want {
			if labels[label] != value {
				t.Errorf("kubernetes.yaml: %s selects %v, and the labels are %v", name, want, labels)
			}
		}
		if len(want) == 0 {
			t.Errorf("kubernetes.yaml: %s selects everything", name)
		}
	}
	for _, name := range []string{
		"Deployment/sluice", "PodDisruptionBudget/sluice", "Service/sluice", "Service/sluice-admin", "NetworkPolicy/sluice",
	} {
		selects(name, deployment.Template.Metadata.Labels)
	}
	policy, open := objects["NetworkPolicy/sluice"].Spec, []string{}
	for _, rule := range policy.Ingress {
		if len(rule.Ports) == 0 {
			t.Error("kubernetes.yaml: the NetworkPolicy opens every port")
		}
		for _, from := range rule.From {
			if len(from) == 0 {
				t.Error("kubernetes.yaml: the NetworkPolicy lets everybody in")
			}
		}
		for _, p := range rule.Ports {
			if len(rule.From) == 0 {
				open = append(open, port(p.Port))
			} else if port(p.Port) != c.AdminListen {
				t.Errorf("kubernetes.yaml: the NetworkPolicy has a rule for port %s", p.Port)
			}
		}
	}
	if !slices.Equal(policy.Types, []string{"Ingress"}) || !slices.Equal(open, []string{c.Listen}) {
		t.Errorf("kubernetes.yaml: for %v everybody reaches %v, want %s alone", policy.Types, open, c.Listen)
	}
	admin := objects["Service/sluice-admin"]
	selects("ServiceMonitor/sluice", admin.Metadata.Labels)
	if endpoint := objects["ServiceMonitor/sluice"].Spec.Endpoints[0]; endpoint.Port != admin.Spec.Ports[0].Name {
		t.Errorf("kubernetes.yaml: the ServiceMonitor reads port %s", endpoint.Port)
	} else {
		isRoute(t, "kubernetes.yaml", endpoint.Path)
	}
	for _, s := range []object{objects["Service/sluice"], admin} {
		if strings.HasPrefix(port(s.Spec.Ports[0].TargetPort), "no") {
			t.Errorf("kubernetes.yaml: service %s leads to no port", s.Metadata.Name)
		}
	}
}
