package web

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/clients/typescript"
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
	".html": "text/html; charset=utf-8", ".png": "image/png",
}

// loadAssets reads them all. The colours of the shop come after those of the style sheet.
func loadAssets(base, colours string) *assets {
	a := &assets{base: base, files: map[string]*asset{}}
	own, err := fs.Sub(static, "static")
	if err != nil {
		panic(err)
	}
	for _, folder := range []fs.FS{own, typescript.Files} {
		names, err := fs.Glob(folder, "*.*")
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(folder, name)
			if err != nil {
				panic(err)
			}
			if name == "pages.css" {
				text = append(text, colours...)
			}
			a.add(name, text)
		}
	}
	return a
}

// Style is the style sheet of the pages, without a shop's colours.
func Style() string {
	text, err := static.ReadFile("static/pages.css")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (a *assets) add(name string, text []byte) {
	if a.files[name] != nil {
		panic("web: two assets are called " + name)
	}
	kind := kinds[path.Ext(name)]
	kind = cmp.Or(kind, mime.TypeByExtension(path.Ext(name)))
	answer := content.New(content.Form{Type: kind, Cache: keepForever, Level: gzip.BestCompression}, text)
	a.files[name] = &asset{text: string(text), ours: answer, other: answer.With(keepAsking)}
}

// seal gives all files their address: nothing is added from then on.
func (a *assets) seal() {
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		fmt.Fprintf(all, "%s %d\n%s", name, len(a.files[name].text), a.files[name].text)
	}
	a.build = hex.EncodeToString(all.Sum(nil)[:8])
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

// imports follows `from "./x.js"`. Dynamic imports
// (`import("./x.js")`) are left alone.
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

// ServeHTTP answers with a file, also to a shop's own page with a <sluice-button>: they are
// the same for all. Which shops may use the API is another matter (cors_origins).
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	switch file := a.files[r.PathValue("file")]; {
	case file == nil:
		http.Error(w, "no such file", http.StatusNotFound)
	case r.PathValue("build") == a.build:
		file.ours.ServeHTTP(w, r)
	default:
		file.other.ServeHTTP(w, r)
	}
}
