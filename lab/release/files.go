package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// An entry is a file of an archive, or a folder if its name ends with a slash.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// writeTar writes entries as a tar file that depends on nothing else.
func writeTar(w io.Writer, entries []entry, modified time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)),
			ModTime: modified, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// besides are the files that an archive has besides the program.
var besides = []string{"README.md", "README.zh-CN.md", "CHANGELOG.md", "LICENSE", "deploy/sluice.service"}

// writeArchive writes a .tar.gz, or a .zip for Windows, that unpacks into one folder.
func writeArchive(b *build, licenses []byte, out string) error {
	program, err := os.ReadFile(b.program)
	if err != nil {
		return err
	}
	name := "sluice"
	if b.os == "windows" {
		name += ".exe"
	}
	top := b.named() + "/"
	entries := []entry{
		{name: top + name, mode: 0o755, content: program},
		{name: top + "THIRD_PARTY_LICENSES.txt", mode: 0o644, content: licenses},
	}
	for _, file := range besides {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: top + filepath.Base(file), mode: 0o644, content: text})
	}
	if b.os == "windows" {
		return writeFile(filepath.Join(out, b.named()+".zip"), func(w io.Writer) error {
			return writeZip(w, entries, b.time)
		})
	}
	return writeFile(filepath.Join(out, b.named()+".tar.gz"), func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(z, entries, b.time); err != nil {
			return err
		}
		return z.Close()
	})
}

func writeZip(w io.Writer, entries []entry, modified time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified.UTC()}
		h.SetMode(os.FileMode(e.mode))
		to, err := z.CreateHeader(h)
		if err == nil {
			_, err = to.Write(e.content)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// writeFile makes a file of what write writes.
func writeFile(path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// licenses are the licenses of all modules that are linked into the program, which
// want to be distributed with it.
func licenses(b *build) ([]byte, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range b.info.Deps {
		args = append(args, m.Path+"@"+m.Version)
	}
	list, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	var text bytes.Buffer
	file := func(title, path string) error {
		license, err := os.ReadFile(path)
		fmt.Fprintf(&text, "==== %s\n\n%s\n\n", title, bytes.TrimSpace(license))
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if err := file("Go "+b.info.GoVersion, filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE")); err != nil {
		return nil, err
	}
	for _, v := range vendored {
		if err := file(v.title+" "+v.version+": "+v.license, v.license); err != nil {
			return nil, err
		}
	}
	all := json.NewDecoder(bytes.NewReader(list))
	for all.More() {
		var m struct{ Path, Version, Dir string }
		if err := all.Decode(&m); err != nil {
			return nil, err
		}
		files, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, f := range files {
			if !f.IsDir() && licenseFile.MatchString(f.Name()) {
				if err := file(m.Path+" "+m.Version+": "+f.Name(), filepath.Join(m.Dir, f.Name())); err != nil {
					return nil, err
				}
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s has no license", m.Path)
		}
	}
	return text.Bytes(), nil
}

// vendored is what the program has in it that is no Go module.
var vendored = []struct{ title, npm, version, license string }{
	{"uPlot", "uplot", "1.6.32", "internal/console/static/uPlot/LICENSE"},
}

var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice)`)

// writeSBOM writes the bill of materials of a program: the modules that its linker
// named, in CycloneDX.
func writeSBOM(b *build, out string) error {
	library := func(path, version string) cyclonedx.Component {
		ref := "pkg:golang/" + path + "@" + version
		return cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, BOMRef: ref, Name: path, Version: version, PackageURL: ref,
		}
	}
	main := library(b.info.Main.Path, b.info.Main.Version)
	main.Type = cyclonedx.ComponentTypeApplication
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.time.UTC().Format(time.RFC3339), Component: &main}
	parts := []cyclonedx.Component{library("std", strings.TrimPrefix(b.info.GoVersion, "go"))}
	for _, m := range b.info.Deps {
		parts = append(parts, library(m.Path, m.Version))
	}
	for _, v := range vendored {
		ref := "pkg:npm/" + v.npm + "@" + v.version
		parts = append(parts, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, BOMRef: ref, Name: v.npm, Version: v.version, PackageURL: ref,
		})
	}
	bom.Components = &parts
	return writeFile(filepath.Join(out, b.named()+".cdx.json"), func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// writePackages writes the .deb and the .rpm that deploy/package/nfpm.yaml describes.
func writePackages(b *build, licenses []byte, out string) error {
	notice := b.program + ".licenses"
	if err := os.WriteFile(notice, licenses, 0o644); err != nil {
		return err
	}
	values := map[string]string{
		"ARCH": b.arch, "VERSION": b.info.Main.Version, "PROGRAM": b.program, "LICENSES": notice,
		"SOURCE_DATE_EPOCH": fmt.Sprint(b.time.Unix()),
	}
	// nfpm's packagers ask the environment for the time.
	if err := os.Setenv("SOURCE_DATE_EPOCH", values["SOURCE_DATE_EPOCH"]); err != nil {
		return err
	}
	value := func(name string) string { return values[name] }
	config, err := nfpm.ParseFileWithEnvMapping("deploy/package/nfpm.yaml", value)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := config.Get(format)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		info.MTime = b.time
		for _, c := range info.Contents {
			if c.FileInfo != nil {
				c.FileInfo.MTime = b.time
			}
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, packager.ConventionalFileName(info)), func(w io.Writer) error {
			return packager.Package(info, w)
		}); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the checksums of all files, as sha256sum reads them.
func writeSums(out string) error {
	files, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var lines []string
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), f.Name()))
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
