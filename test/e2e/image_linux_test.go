package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The program as deploy/Dockerfile builds and starts it, with nothing else in a root
// file system that is read-only, /data apart, as the user of the image: it is static,
// needs no other file, and sells. No container engine is needed. It compiles everything
// once more, so `make soak` runs it.
func TestSoakImage(t *testing.T) {
	soak(t)
	steps := map[string]string{} // the last of each word
	var build string
	for _, step := range instructions(t) {
		if steps[step[0]] = step[1]; step[0] == "RUN" && strings.Contains(step[1], "go build") {
			build = step[1]
		}
	}
	root := servertest.Disk(t, "128m")
	program := filepath.Join(root, "usr/local/bin/sluice")
	data := filepath.Join(root, "data")
	for _, dir := range []string{filepath.Dir(program), data} {
		must.Succeed(t, os.MkdirAll(dir, 0o755))
	}
	cmd := exec.Command("sh", "-c", strings.Replace(build, "-o /sluice", "-o "+program, 1))
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "VERSION=v0.0.0-test")
	if out, err := cmd.CombinedOutput(); err != nil || build == "" {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}

	// As the runtime does: a namespace of mounts, the root read-only, /data the volume's.
	start := filepath.Join(t.TempDir(), "start")
	must.Succeed(t, os.WriteFile(start, []byte(`#!/bin/sh
set -e
if [ -z "$INSIDE" ]; then INSIDE=1 exec unshare --mount "$0" "$@"; fi
unset INSIDE
cd "`+root+`"
mount --make-rprivate /
mount -t tmpfs -o size=32m,mode=0700,uid=65532,gid=65532 data data
mount -o remount,ro .
if touch usr/x 2>/dev/null; then exit 9; fi
exec chroot --userspec=65532:65532 . /usr/local/bin/sluice "$@"
`), 0o700))
	if steps["USER"] != "65532:65532" || steps["ENTRYPOINT"] != `["sluice"]` || steps["CMD"] != `["serve"]` {
		t.Fatalf("the image starts differently: %v", steps)
	}
	addr := freeAddr(t)
	s := &server{t: t, dir: t.TempDir(), addr: addr, url: "http://" + addr, admin: "http://" + addr}
	s.program = start
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "SLUICE_ADMIN_KEY=" + adminKey, "SLUICE_BUYER_SECRET=" + buyerSecret,
		"SLUICE_LISTEN=" + addr,
	}
	for name, value := range imageSettings(t) {
		if name != "SLUICE_LISTEN" {
			s.env = append(s.env, name+"="+value)
		}
	}
	t.Cleanup(func() {
		s.kill()
		s.checkLog()
	})
	s.launch()
	await(t, "a server that is ready", func() bool {
		answer, err := http.Get(s.url + "/readyz")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	sale := createSale(t, s, 1, 1)
	awaitState(t, []*server{s}, sale, sluice.StateOpen)
	if _, err := buyer(t, s.url, "ann", client.Options{}).Place(t.Context(), sale, client.NewKey(),
		api.PlaceOrder{Quantity: 1}); err != nil {
		t.Error(err)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil || !slices.Contains(strings.Split(string(status), "\n"), "Uid:\t65532\t65532\t65532\t65532") {
		t.Errorf("the process has not the image's user: %v\n%.400s", err, status)
	}
	if code := s.terminate(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
