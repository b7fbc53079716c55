package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeImage writes the container image for some systems as one tar file in OCI's
// layout, which docker, podman, skopeo and crane read. It holds the program and
// root certificates, nothing else, and starts as deploy/Dockerfile's image does.
func writeImage(builds []*build, out string) error {
	if len(builds) == 0 {
		return nil
	}
	config, err := imageConfig("deploy/Dockerfile")
	if err != nil {
		return err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range builds {
		image, err := image(b, *config)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
	}
	folder, err := os.MkdirTemp("", "sluice-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": builds[0].version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		inside, _ := filepath.Rel(folder, path)
		entries = append(entries, entry{name: filepath.ToSlash(inside), mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(out, "sluice_"+builds[0].version+"_image.tar"), func(w io.Writer) error {
		return writeTar(w, entries, builds[0].time)
	})
}

// image is the image for one system.
func image(b *build, config v1.Config) (v1.Image, error) {
	program, err := os.ReadFile(b.program)
	if err != nil {
		return nil, err
	}
	user, _, _ := strings.Cut(config.User, ":")
	owner, err := strconv.Atoi(user)
	if err != nil {
		return nil, fmt.Errorf("the image's user: %w", err)
	}
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		// A PEM file cannot say under which conditions a certificate is to be trusted.
		if root.Constraint == nil {
			if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	var files bytes.Buffer
	err = writeTar(&files, []entry{
		{name: "data/", mode: 0o700, owner: owner},
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates.Bytes()},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/sluice", mode: 0o755, content: program},
	}, b.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Labels = map[string]string{
		"org.opencontainers.image.version":  b.version,
		"org.opencontainers.image.revision": b.commit,
		"org.opencontainers.image.source":   "https://" + b.info.Main.Path,
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config, file.Created = b.os, b.arch, config, v1.Time{Time: b.time.UTC()}
	return mutate.ConfigFile(image, file)
}

// imageConfig reads how a container of a Dockerfile's image starts.
func imageConfig(path string) (*v1.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &v1.Config{
		Env:          []string{"PATH=/usr/local/bin"},
		Volumes:      map[string]struct{}{},
		ExposedPorts: map[string]struct{}{},
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "ENV":
			c.Env = append(c.Env, strings.Fields(rest)...)
		case "VOLUME":
			c.Volumes[rest] = struct{}{}
		case "EXPOSE":
			c.ExposedPorts[rest+"/tcp"] = struct{}{}
		case "USER":
			c.User = rest
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &c.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &c.Cmd)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, word, err)
		}
	}
	return c, nil
}
