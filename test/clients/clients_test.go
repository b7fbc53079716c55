// Package clients tests the clients of other languages against a real server.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// The coordinates that docs/clients.md gives are those of the pom, and the version that of the other client.
func TestCoordinates(t *testing.T) {
	t.Parallel()
	values := func(text, format string) (all []string) {
		for _, tag := range []string{"groupId", "artifactId", "version"} {
			value := regexp.MustCompile(fmt.Sprintf(format, tag)).FindStringSubmatch(text)
			if value == nil {
				t.Fatalf("there is no %s in\n%s", tag, text)
			}
			all = append(all, value[1])
		}
		return all
	}
	const xml = "<%[1]s>(.*)</%[1]s>"
	pom := values(string(must.Get(os.ReadFile(filepath.Join(folder("java"), "pom.xml")))(t)), xml)
	if got := values(snippet(t, "xml"), xml); !slices.Equal(got, pom) {
		t.Errorf("docs/clients.md has %q, the pom %q", got, pom)
	}
	if all := strings.Join(pom, ":"); !strings.Contains(snippet(t, "kotlin"), `"`+all+`"`) {
		t.Errorf("the lines for Gradle do not have %s", all)
	}
	npm := string(must.Get(os.ReadFile(filepath.Join(folder("typescript"), "package.json")))(t))
	if want := `"version": "` + pom[2] + `"`; !strings.Contains(npm, want) {
		t.Errorf("package.json does not have %s", want)
	}
}

// compiled returns a folder with the classes of Java files, the client's among them.
func compiled(t *testing.T, files ...string) string {
	t.Helper()
	classes, javac := t.TempDir(), servertest.Program(t, "java", "javac")
	run(t, folder("java"), os.Environ(), javac, append([]string{
		"-Xlint:unchecked,rawtypes,deprecation", "-Werror", "--release", "17", "-d", classes, "Sluice.java",
	}, files...)...)
	return classes
}

func TestJava(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	java := servertest.Program(t, "java", "java")
	guide := filepath.Join(t.TempDir(), "Backend.java")
	must.Succeed(t, os.WriteFile(guide, []byte(snippet(t, "java")), 0o600))
	classes := compiled(t, "test/ClientTest.java", guide)
	run(t, folder("java"), serve(t), java, "-cp", classes, "ClientTest")
	run(t, classes, append(os.Environ(), "SLUICE_URL=http://127.0.0.1:1", "SLUICE_BUYER_SECRET=s"),
		java, "-cp", classes, "Backend")
}

// What examples/shop-spring does without Spring: token, webhook, payment.
func TestShopOfSpring(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	java := servertest.Program(t, "java", "java")
	shop := filepath.Join("..", "..", "examples", "shop-spring")
	source := filepath.Join(shop, "src", "main", "java", "shop")
	classes := compiled(t, filepath.Join(source, "Shop.java"), filepath.Join(source, "FlashSale.java"),
		filepath.Join(shop, "test", "FlashSaleTest.java"))
	run(t, classes, serve(t), java, "-cp", classes, "FlashSaleTest")
}
