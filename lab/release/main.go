// release makes everything of a release of the repository in a folder:
//
//	go run -C lab ./release [-only linux/amd64] .. ../dist
//
// Archives, a bill of materials (SBOM) of each program, packages for Debian and Red Hat,
// a container image, notes and checksums. Its output depends on the commit and the
// version of Go only: not on the folder, the clock, the user or the host. The version
// is the tag of the commit, which go itself writes into the program.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// systems are the values of GOOS/GOARCH that are released.
var systems = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

// A build is the program for one system.
type build struct {
	os, arch string
	program  string // its path
	info     *buildinfo.BuildInfo
	version  string    // without the v
	commit   string    // all of its digits
	time     time.Time // of the commit
}

// named is the name of a file of this build, without its extension.
func (b *build) named() string { return "sluice_" + b.version + "_" + b.os + "_" + b.arch }

func main() {
	log.SetFlags(0)
	only := flag.String("only", strings.Join(systems, ","), "the systems, as `GOOS/GOARCH,...`")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: release [-only GOOS/GOARCH,...] REPOSITORY FOLDER")
	}
	out, err := filepath.Abs(flag.Arg(1))
	if err == nil {
		err = os.Chdir(flag.Arg(0))
	}
	if err == nil {
		err = release(strings.Split(*only, ","), out)
	}
	if err != nil {
		log.Fatalf("release: %v", err)
	}
}

// release fills the folder out, which it empties first.
func release(only []string, out string) error {
	programs, err := os.MkdirTemp("", "sluice-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	var images []*build
	var last *build
	for _, system := range only {
		if !slices.Contains(systems, system) {
			return fmt.Errorf("unknown system %s; want %s", system, strings.Join(systems, ", "))
		}
		b, err := compile(system, programs)
		if err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
		log.Printf("%s %s", b.version, system)
		licenses, err := licenses(b)
		if err != nil {
			return err
		}
		if err := errors.Join(writeArchive(b, licenses, out), writeSBOM(b, out)); err != nil {
			return err
		}
		if last = b; b.os == "linux" {
			images = append(images, b)
			if err := writePackages(b, licenses, out); err != nil {
				return err
			}
		}
	}
	if err := writeImage(images, out); err != nil {
		return err
	}
	notes, err := notes(last.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "notes.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	return writeSums(out)
}

// compile builds the program for a system. It sets the environment that go reads and
// would write into the program.
func compile(system, folder string) (*build, error) {
	b := &build{}
	b.os, b.arch, _ = strings.Cut(system, "/")
	b.program = filepath.Join(folder, b.os+"_"+b.arch)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", b.program, "./cmd/sluice")
	cmd.Env = append(os.Environ(), "GOOS="+b.os, "GOARCH="+b.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-trimpath -buildvcs=true", "GOWORK=off", "GOFIPS140=off", "GOEXPERIMENT=",
		"GOTOOLCHAIN="+runtime.Version())
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	var err error
	if b.info, err = buildinfo.ReadFile(b.program); err != nil {
		return nil, err
	}
	for _, s := range b.info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.time":
			b.time, err = time.Parse(time.RFC3339, s.Value)
		case "vcs.modified":
			if s.Value != "false" {
				return nil, errors.New("the folder has changes that are not in a commit")
			}
		}
	}
	if b.version = strings.TrimPrefix(b.info.Main.Version, "v"); err != nil || b.commit == "" || b.time.IsZero() {
		return nil, fmt.Errorf("go did not write the commit into the program: is this a clone made by git? %w", err)
	}
	return b, nil
}

// notes returns what the changelog says about a version. A heading that is no release, or comes
// before one, is told by what is unreleased.
func notes(version string) (string, error) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	heading := version
	if strings.Contains(version, "-") {
		heading = "Unreleased"
	}
	found := regexp.MustCompile(`(?ms)^## \[` + regexp.QuoteMeta(heading) + `\][^\n]*\n+(.*?)(\n## |\z)`).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section [%s]", heading)
	}
	return strings.TrimSpace(string(found[1])) + "\n", nil
}
