package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// TestRelease makes a release of this tree for one system twice, in two folders: the
// bytes are the same, and what is in them can be installed and runs.
func TestRelease(t *testing.T) {
	servertest.Nightly(t) // compiles everything once more
	top := t.TempDir()
	one, two := filepath.Join(top, "one"), filepath.Join(top, "another")
	commit := repository(t, one)
	run(t, top, "git", "clone", "--quiet", one, two)
	tool := filepath.Join(top, "release")
	run(t, one, "go", "-C", "lab", "build", "-o", tool, "./release")

	dist := filepath.Join(top, "dist")
	sums := map[string]string{}
	for _, clone := range []string{one, two} {
		run(t, clone, tool, "-only", "linux/"+runtime.GOARCH, ".", dist)
		for line := range strings.Lines(content(t, filepath.Join(dist, "SHA256SUMS"))) {
			sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			real := sha256.Sum256([]byte(content(t, filepath.Join(dist, name))))
			if hex.EncodeToString(real[:]) != sum {
				t.Errorf("%s has not the checksum that SHA256SUMS has", name)
			}
			if before, ok := sums[name]; clone == two && (!ok || before != sum) {
				t.Errorf("%s: other bytes in another folder", name)
			}
			sums[name] = sum
		}
	}
	var names []string
	for _, pattern := range []string{"*.tar.gz", "*.cdx.json", "*.deb", "*.rpm", "*_image.tar", "notes.md"} {
		found, _ := filepath.Glob(filepath.Join(dist, pattern))
		if len(found) != 1 {
			t.Fatalf("%s: %q", pattern, found)
		}
		names = append(names, found[0])
	}
	if len(sums) != len(names) {
		t.Errorf("files that no user asked for: %v", sums)
	}

	// The archive.
	unpacked := t.TempDir()
	unpack(t, open(t, names[0]), unpacked)
	program, _ := filepath.Glob(filepath.Join(unpacked, "*", "sluice"))
	if len(program) != 1 {
		t.Fatalf("the archive has no program: %q", program)
	}
	isVersion(t, exec.Command(program[0], "version", "--json"), commit)
	if strings.Contains(content(t, program[0]), top) {
		t.Error("the program knows the folder that it was built in")
	}
	bom := content(t, names[1])
	for _, part := range []string{"pkg:golang/modernc.org/sqlite@v", "pkg:golang/std@1.", `"CycloneDX"`} {
		if !strings.Contains(bom, part) {
			t.Errorf("the bill of materials lacks %s", part)
		}
	}

	debian(t, names[2], commit)
	image(t, names[4], commit)
}

// repository makes a repository of this tree with one tagged commit, and returns the commit.
func repository(t *testing.T, folder string) string {
	t.Helper()
	top := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = top
	out, err := list.Output()
	if err != nil {
		t.Skipf("needs the repository: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		from, to := filepath.Join(top, name), filepath.Join(folder, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not yet committed
		}
		must.Succeed(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must.Succeed(t, os.WriteFile(to, []byte(content(t, from)), info.Mode()))
	}
	run(t, folder, "git", "init", "--quiet")
	run(t, folder, "git", "add", "--all")
	run(t, folder, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false",
		"commit", "--quiet", "--no-verify", "-m", "a release")
	run(t, folder, "git", "tag", "v0.1.0-rc.1")
	return strings.TrimSpace(run(t, folder, "git", "rev-parse", "HEAD"))
}

// debian installs the package in a root folder, and removes it.
func debian(t *testing.T, deb, commit string) {
	t.Helper()
	if _, err := exec.LookPath("dpkg"); err != nil || os.Getuid() != 0 {
		t.Log("no dpkg here, or not as root: the package is not installed")
		return
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // which dpkg insists on
	root := t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	for _, file := range []string{"status", "available"} {
		must.Succeed(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644))
	}
	dpkg := []string{"--root=" + root, "--force-script-chrootless", "--log=/dev/null"}
	run(t, root, "dpkg", append(dpkg, "--install", deb)...)
	isVersion(t, exec.Command(filepath.Join(root, "usr/bin/sluice"), "version", "--json"), commit)
	unit := content(t, filepath.Join(root, "usr/lib/systemd/system/sluice.service"))
	if unit != content(t, filepath.Join("..", "..", "deploy", "sluice.service")) {
		t.Error("the package has another unit")
	}
	settings := regexp.MustCompile(`EnvironmentFile=(\S+)`).FindStringSubmatch(unit)[1]
	if info, err := os.Stat(filepath.Join(root, settings)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v %v", settings, info, err)
	}
	run(t, root, "dpkg", append(dpkg, "--remove", "sluice")...)
	if _, err := os.Stat(filepath.Join(root, "usr/bin/sluice")); err == nil {
		t.Error("the removed package left its program")
	}
	if _, err := os.Stat(filepath.Join(root, settings)); err != nil {
		t.Error("the removed package took the settings along")
	}
}

// image starts the container image's program with its root, and its user.
func image(t *testing.T, path, commit string) {
	t.Helper()
	layout := t.TempDir()
	unpack(t, open(t, path), layout)
	type descriptor struct{ Digest string }
	var manifest struct {
		Manifests, Layers []descriptor
		Config            descriptor
	}
	read := func(name string, into any) {
		must.Succeed(t, json.Unmarshal([]byte(content(t, filepath.Join(layout, name))), into))
	}
	blob := func(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
	read("index.json", &manifest)
	read(blob(manifest.Manifests[0]), &manifest) // the index of systems
	read(blob(manifest.Manifests[0]), &manifest)
	var file struct {
		Architecture string
		Config       struct {
			User            string
			Env             []string
			Entrypoint, Cmd []string
		}
	}
	read(blob(manifest.Config), &file)
	if c := file.Config; file.Architecture != runtime.GOARCH || c.User != "65532:65532" ||
		strings.Join(append(c.Entrypoint, c.Cmd...), " ") != "sluice serve" ||
		!strings.Contains(strings.Join(c.Env, " "), "SLUICE_DATA_DIR=/data") {
		t.Errorf("the image starts differently: %+v", file)
	}
	root := t.TempDir()
	must.Succeed(t, os.Chmod(root, 0o755))
	unpack(t, open(t, filepath.Join(layout, blob(manifest.Layers[0]))), root)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(content(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")))) {
		t.Error("the image has no certificates")
	}
	if os.Getuid() != 0 {
		t.Log("not as root: the image is not started")
		return
	}
	start := exec.Command("/usr/local/bin/sluice", "version", "--json")
	start.Dir = "/"
	start.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	isVersion(t, start, commit)
}

// isVersion runs the program, which says which release and commit it is of.
func isVersion(t *testing.T, cmd *exec.Cmd, commit string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var said struct{ Version, Commit, Go string }
	if err := errors.Join(err, json.Unmarshal(out, &said)); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if said.Version != "v0.1.0-rc.1" || said.Commit != commit || said.Go != runtime.Version() {
		t.Errorf("%v: %+v, of commit %s", cmd.Args, said, commit)
	}
}

// unpack unpacks a tar file, compressed or not.
func unpack(t *testing.T, from io.Reader, folder string) {
	t.Helper()
	text := must.Get(io.ReadAll(from))(t)
	from = bytes.NewReader(text)
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		from = must.Get(gzip.NewReader(from))(t)
	}
	for all := tar.NewReader(from); ; {
		h, err := all.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			text, readErr := io.ReadAll(all)
			err = errors.Join(readErr, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, os.FileMode(h.Mode)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, tail(out))
	}
	return string(out)
}
