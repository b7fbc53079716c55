// Package install tests how Sluice is installed: by the version of its module, as
// `go install github.com/sluicehq/sluice/cmd/sluice@VERSION` does, and from what
// `make release` makes.
package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

var release = module.Version{Path: "github.com/sluicehq/sluice", Version: "v0.1.0-installed"}

// TestInstallByVersion publishes this tree on a module proxy of files, and installs
// the program from there, without network. Its paths are trimmed, so that it shares
// what is compiled with TestRelease.
func TestInstallByVersion(t *testing.T) {
	servertest.Nightly(t)
	top := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	cache, proxy := moduleCache(t), t.TempDir()
	publish(t, top, proxy)
	bin := t.TempDir()
	install := exec.Command("go", "install", release.Path+"/cmd/sluice@"+release.Version)
	install.Dir = t.TempDir() // of no module
	install.Env = append(os.Environ(),
		"GOFLAGS=-mod=mod -modcacherw -trimpath -ldflags=-s", "CGO_ENABLED=0", "GOWORK=off",
		"GONOSUMDB="+release.Path, "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
		"GOTOOLCHAIN=local",
		"GOMODCACHE="+shadow(t, cache), "GOBIN="+bin,
		"GOPROXY="+url(proxy)+","+url(filepath.Join(cache, "cache", "download")),
	)
	out, err := install.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", install.Args, err, tail(out))
	}
	version, err := exec.Command(filepath.Join(bin, "sluice"), "--version").CombinedOutput()
	if err != nil || !bytes.Contains(version, []byte(release.Version+"\n")) {
		t.Errorf("sluice --version: %v\n%s", err, version)
	}
}

// publish writes the files of a version as a module proxy serves them. The zip
// leaves out nested modules, as every proxy does.
func publish(t *testing.T, top, proxy string) {
	t.Helper()
	folder := filepath.Join(proxy, filepath.FromSlash(release.Path), "@v")
	must.Succeed(t, os.MkdirAll(folder, 0o700))
	mod := must.Get(os.ReadFile(filepath.Join(top, "go.mod")))(t)
	info := must.Get(json.Marshal(map[string]string{"Version": release.Version, "Time": "2026-01-02T03:04:05Z"}))(t)
	for name, content := range map[string][]byte{
		"list": []byte(release.Version + "\n"), release.Version + ".mod": mod,
		release.Version + ".info": info,
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	file := must.Get(os.Create(filepath.Join(folder, release.Version+".zip")))(t)
	must.Succeed(t, zip.Create(file, release, files(t, top)))
	must.Succeed(t, file.Close())
}

// files lists what git keeps, or would: a proxy makes its zip from that and
// not from what else lies in the folder.
func files(t *testing.T, top string) []zip.File {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = top
	out, err := list.Output()
	if err != nil {
		servertest.Unavailable(t, "git", fmt.Sprintf("git does not say which files belong to the module: %v", err))
	}
	names := slices.DeleteFunc(strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), func(name string) bool {
		_, err := os.Lstat(filepath.Join(top, name))
		first, _, _ := strings.Cut(name, "/")
		return err != nil || slices.Contains([]string{"lab", "test", "tools"}, first) // removed, or of a nested module
	})
	slices.Sort(names)
	var all []zip.File
	for _, name := range slices.Compact(names) {
		all = append(all, file{top, name})
	}
	return all
}

// file is a file of the module.
type file struct{ top, name string }

func (f file) Path() string                { return f.name }
func (f file) Lstat() (os.FileInfo, error) { return os.Lstat(f.path()) }
func (f file) Open() (io.ReadCloser, error) {
	return os.Open(f.path())
}
func (f file) path() string { return filepath.Join(f.top, filepath.FromSlash(f.name)) }

// moduleCache returns the module cache of this machine, which holds every
// module of the build.
func moduleCache(t *testing.T) string {
	t.Helper()
	out := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	return strings.TrimSpace(string(out))
}

// shadow makes a module cache that shows the modules of this machine's, so that
// they are not unpacked again, and keeps to itself what is added.
func shadow(t *testing.T, cache string) string {
	t.Helper()
	mine := t.TempDir()
	for _, folder := range []string{"", filepath.Join("cache", "download")} {
		mirror(t, filepath.Join(cache, folder), filepath.Join(mine, folder), "cache", "github.com")
		mirror(t, filepath.Join(cache, folder, "github.com"), filepath.Join(mine, folder, "github.com"), "sluicehq")
	}
	return mine
}

// mirror links everything in a folder but the names given.
func mirror(t *testing.T, from, to string, but ...string) {
	t.Helper()
	entries := must.Get(os.ReadDir(from))(t)
	must.Succeed(t, os.MkdirAll(to, 0o700))
	for _, e := range entries {
		if slices.Contains(but, e.Name()) {
			continue
		}
		must.Succeed(t, os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
}

func url(path string) string { return "file://" + filepath.ToSlash(path) }

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }
