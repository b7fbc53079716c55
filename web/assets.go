package web

import (
	"bytes"
	"embed"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// assets are the scripts, styles and pictures of the pages. Their addresses
// carry one hash of them all, so that scripts name each other by plain
// relative paths, and a page never mixes two builds.
type assets struct {
	build string
	files map[string]*document
	order []string // names, sorted
}

const (
	keepForever = "public, max-age=31536000, immutable"
	keepAsking  = "no-cache"
)

// kinds are named here and not left to the machine's own table of MIME types.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func loadAssets() *assets {
	a := &assets{files: map[string]*document{}}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic(err)
	}
	var all bytes.Buffer
	for _, e := range entries { // sorted by name
		content, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		kind := kinds[path.Ext(e.Name())]
		if kind == "" {
			kind = mime.TypeByExtension(path.Ext(e.Name()))
		}
		a.files[e.Name()] = newDocument(content, kind, keepForever)
		a.order = append(a.order, e.Name())
		fmt.Fprintf(&all, "%s %d\n", e.Name(), len(content))
		all.Write(content)
	}
	a.build = hash(all.Bytes())
	return a
}

// path is the address of a file.
func (a *assets) path(name string) (string, error) {
	if a.files[name] == nil {
		return "", fmt.Errorf("web: no asset %q", name)
	}
	return "/assets/" + a.build + "/" + name, nil
}

// modules are the addresses of what a page's script will import, so that the
// browser fetches all at once and not one after the other.
func (a *assets) modules(kind string) []string {
	var all []string
	for _, name := range imports(a, kind+".js", map[string]bool{}) {
		all = append(all, "/assets/"+a.build+"/"+name)
	}
	return all
}

// imports follows `from "./x.js"`. What is imported only when it is needed
// (`import("./x.js")`) is left alone.
func imports(a *assets, name string, seen map[string]bool) (all []string) {
	doc := a.files[name]
	if doc == nil {
		return nil
	}
	for line := range strings.Lines(string(doc.plain)) {
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

// ServeHTTP answers with a file. A page that was made by another version of
// the program, while servers are being replaced, gets the file as it is here,
// and nobody may keep that under the other build's name.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	doc := a.files[r.PathValue("file")]
	if doc == nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	if r.PathValue("build") != a.build {
		other := *doc
		other.keep = keepAsking
		doc = &other
	}
	doc.serve(w, r)
}
