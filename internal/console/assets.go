package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/sluicehq/sluice/internal/content"
)

type asset struct{ answer *content.Answer }

// loadAssets reads the styles. Their address has the hash of their content, and browsers keep them for ever.
func (c *Console) loadAssets() {
	own, err := files.ReadFile("static/console.css")
	if err != nil {
		panic(err)
	}
	style := append([]byte(c.Style), own...)
	sum := sha256.Sum256(style)
	c.build = hex.EncodeToString(sum[:8])
	c.assets = map[string]asset{"console.css": {content.New(content.Form{
		Type: "text/css; charset=utf-8", Cache: "private, max-age=31536000, immutable",
	}, style)}}
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
	file.answer.ServeHTTP(w, r)
}
