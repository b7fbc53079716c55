package console

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"path"
	"slices"

	"github.com/sluicehq/sluice/internal/content"
)

// asset is a file as it is sent under its address, and under that of another version of the program: while servers
// are being replaced, no browser may keep it under the other's name.
type asset struct{ ours, other *content.Answer }

// assetTypes are the files that pages use, with their types. uPlot draws the charts; its licence is beside it.
var assetTypes = map[string]string{
	"console.css": "text/css", "console.js": "text/javascript",
	"uPlot/uPlot.iife.min.js": "text/javascript", "uPlot/uPlot.min.css": "text/css",
}

// loadAssets reads the files. Their address has the hash of their content, and browsers keep them for ever.
func (c *Console) loadAssets() {
	sum := sha256.New()
	c.assets = map[string]asset{}
	for _, name := range slices.Sorted(maps.Keys(assetTypes)) {
		text, err := files.ReadFile("static/" + name)
		if err != nil {
			panic(err)
		}
		if name == "console.css" {
			text = append([]byte(c.Style), text...)
		}
		sum.Write(text)
		answer := content.New(content.Form{
			Type: assetTypes[name] + "; charset=utf-8", Cache: "private, max-age=31536000, immutable",
		}, text)
		c.assets[path.Base(name)] = asset{answer, answer.With("no-cache")}
	}
	c.build = hex.EncodeToString(sum.Sum(nil)[:8])
}

// asset is the address of a file.
func (c *Console) asset(name string) string { return c.Base + "/admin/assets/" + c.build + "/" + name }

func (c *Console) serveAsset(w http.ResponseWriter, r *http.Request) {
	file, ok := c.assets[r.PathValue("file")]
	if !ok {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	w.Header().Del("Cache-Control")
	if r.PathValue("build") == c.build {
		file.ours.ServeHTTP(w, r)
	} else {
		file.other.ServeHTTP(w, r)
	}
}
