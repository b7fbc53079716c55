// Package clients tests the clients of other languages against a real server.
package clients

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// patience is how long a program may run on a busy machine.
const patience = 5 * time.Minute

// serve starts a server, and returns how a program finds it.
func serve(t *testing.T) (env []string) {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = e.Close(t.Context())
	})
	return append(
		os.Environ(), "SLUICE_URL=http://"+listener.Addr().String(), "SLUICE_ADMIN_KEY="+e.AdminKey(),
		"SLUICE_BUYER_SECRET="+e.BuyerSecret(),
	)
}

// folder is that of a client.
func folder(name string) string { return filepath.Join("..", "..", "clients", name) }

// run runs a program in a folder.
func run(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
}

func TestTypeScript(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	node := servertest.Program(t, "node", "node")
	run(t, folder("typescript"), serve(t), node, "--test", "test/client.test.js")
}

// strict is how a careful shop compiles.
var strict = []string{
	"--noEmit", "--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution", "node",
	"--lib", "es2022,dom",
}

// The declarations, as a shop's compiler reads them.
func TestTypes(t *testing.T) {
	t.Parallel()
	tsc := servertest.Program(t, "tsc", "tsc")
	run(t, folder("typescript"), os.Environ(), tsc, slices.Concat(strict, []string{"test/types.ts"})...)
}

// snippet is the code of a language in docs/clients.md.
func snippet(t *testing.T, language string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "clients.md")))(t)
	_, code, ok := strings.Cut(string(text), "```"+language+"\n")
	if !ok {
		t.Fatalf("docs/clients.md has no %s", language)
	}
	code, _, _ = strings.Cut(code, "```")
	return code
}

// The code of docs/clients.md: one compiles, one runs.
func TestGuide(t *testing.T) {
	t.Parallel()
	node, tsc := servertest.Program(t, "node", "node"), servertest.Program(t, "tsc", "tsc")
	dir := t.TempDir()
	for language, file := range map[string]string{"ts": "guide.ts", "js": "guide.mjs"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(snippet(t, language)), 0o600))
	}
	ours := must.Get(filepath.Abs(folder("typescript")))(t)
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(dir, "node_modules", "@sluice"), 0o700),
		os.Symlink(ours, filepath.Join(dir, "node_modules", "@sluice", "client"))))
	run(t, dir, os.Environ(), tsc, slices.Concat(strict, []string{"guide.ts"})...)
	run(t, dir, append(os.Environ(), "SLUICE_URL=http://127.0.0.1:1", "SLUICE_ADMIN_KEY=k", "SLUICE_BUYER_SECRET=s",
		"SLUICE_WEBHOOK_SECRET=whsec_c2VjcmV0"), node, "--input-type=module", "-e", `
		import assert from "node:assert/strict";
		const { token, received } = await import("./guide.mjs");
		assert.equal(token("alice").split(".").length, 3);
		assert.equal(received({ headers: {} }, "{}"), null);`)
}

func TestJava(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	java, javac := servertest.Program(t, "java", "java"), servertest.Program(t, "java", "javac")
	classes := t.TempDir()
	run(t, folder("java"), os.Environ(), javac, "-Xlint:unchecked,rawtypes,deprecation", "-Werror", "--release", "17",
		"-d", classes, "Sluice.java", "test/ClientTest.java")
	run(t, folder("java"), serve(t), java, "-cp", classes, "ClientTest")
	guide := filepath.Join(t.TempDir(), "Backend.java")
	must.Succeed(t, os.WriteFile(guide, []byte(snippet(t, "java")), 0o600))
	run(t, classes, os.Environ(), javac, "-cp", classes, "-d", classes, guide)
	run(t, classes, append(os.Environ(), "SLUICE_URL=http://127.0.0.1:1", "SLUICE_BUYER_SECRET=s"),
		java, "-cp", classes, "Backend")
}
