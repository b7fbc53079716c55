package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/sluicehq/sluice/internal/content"
)

// asset is a file as it is sent under its address, and under that of another version of the program: while servers
// are being replaced, no browser may keep it under the other's name.
type asset struct{ ours, other *content.Answer }

// loadAssets reads the styles. Their address has the hash of their content, and browsers keep them for ever.
func (c *Console) loadAssets() {
	own, err := files.ReadFile("static/console.css")
	if err != nil {
		panic(err)
	}
	style := append([]byte(c.Style), own...)
	sum := sha256.Sum256(style)
	c.build = hex.EncodeToString(sum[:8])
	answer := content.New(content.Form{
		Type: "text/css; charset=utf-8", Cache: "private, max-age=31536000, immutable",
	}, style)
	c.assets = map[string]asset{"console.css": {answer, answer.With("no-cache")}}
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
