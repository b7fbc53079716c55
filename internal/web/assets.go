package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/sluicehq/sluice/internal/content"
)

//go:embed static
var static embed.FS

// assets are the scripts, styles and pictures of the pages. Their addresses
// carry one hash of them all, so that scripts name each other by plain
// relative paths, and a page never mixes two builds.
type assets struct {
	base  string // Options.Base
	build string
	files map[string]*asset
}

// asset is a file. While servers are being replaced, a page that was made by
// another version of the program gets the file as it is here, and no cache may
// store that under the other build's name.
type asset struct {
	text        string
	ours, other *content.Answer // to the pages of this build, and of another
}

const (
	keepForever = "public, max-age=31536000, immutable"
	keepAsking  = "no-cache"
)

// kinds are named here and not left to the machine's own table of MIME types.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func loadAssets(base string) *assets {
	a := &assets{base: base, files: map[string]*asset{}}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic(err)
	}
	var all bytes.Buffer
	for _, e := range entries { // sorted by name
		text, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		kind := kinds[path.Ext(e.Name())]
		kind = cmp.Or(kind, mime.TypeByExtension(path.Ext(e.Name())))
		answer := content.New(content.Form{Type: kind, Cache: keepForever, Level: gzip.BestCompression}, text)
		a.files[e.Name()] = &asset{text: string(text), ours: answer, other: answer.With(keepAsking)}
		fmt.Fprintf(&all, "%s %d\n", e.Name(), len(text))
		all.Write(text)
	}
	sum := sha256.Sum256(all.Bytes())
	a.build = hex.EncodeToString(sum[:8])
	return a
}

// path is the address of a file.
func (a *assets) path(name string) (string, error) {
	if a.files[name] == nil {
		return "", fmt.Errorf("web: no asset %q", name)
	}
	return a.address(name), nil
}

func (a *assets) address(name string) string { return a.base + "/assets/" + a.build + "/" + name }

// modules are the addresses of what a page's script will import, so that the
// browser fetches all at once and not one after the other.
func (a *assets) modules(kind string) []string {
	var all []string
	for _, name := range imports(a, kind+".js", map[string]bool{}) {
		all = append(all, a.address(name))
	}
	return all
}

// imports follows `from "./x.js"`. What is imported only when it is needed
// (`import("./x.js")`) is left alone.
func imports(a *assets, name string, seen map[string]bool) (all []string) {
	file := a.files[name]
	if file == nil {
		return nil
	}
	for line := range strings.Lines(file.text) {
		_, rest, ok := strings.Cut(line, ` from "./`)
		next, _, closed := strings.Cut(rest, `"`)
		if !ok || !closed || !strings.HasPrefix(line, "import ") || seen[next] {
			continue
		}
		seen[next] = true
		all = append(append(all, next), imports(a, next, seen)...)
	}
	return all
}

// ServeHTTP answers with a file.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch file := a.files[r.PathValue("file")]; {
	case file == nil:
		http.Error(w, "no such file", http.StatusNotFound)
	case r.PathValue("build") == a.build:
		file.ours.ServeHTTP(w, r)
	default:
		file.other.ServeHTTP(w, r)
	}
}
