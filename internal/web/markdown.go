package web

import (
	"bytes"
	"html/template"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	markdowntext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Merchants write descriptions, and may have copied them from anywhere: HTML in them is left out,
// and what Markdown makes of the rest is sanitised once more.
var (
	toHTML = goldmark.New(goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(lower{}, 100))))
	safe   = func() *bluemonday.Policy {
		p := bluemonday.NewPolicy()
		p.AllowElements("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "strong", "em", "code", "pre",
			"blockquote")
		p.AllowAttrs("href").OnElements("a")
		p.AllowURLSchemes("https", "mailto", "tel")
		p.RequireParseableURLs(true)
		p.RequireNoFollowOnLinks(true)
		p.RequireNoReferrerOnLinks(true)
		return p
	}()
)

// markdown is a description as HTML.
func markdown(description string) (template.HTML, error) {
	var b bytes.Buffer
	if err := toHTML.Convert([]byte(description), &b); err != nil {
		return "", err
	}
	return template.HTML(safe.SanitizeBytes(b.Bytes())), nil
}

// lower puts a description's headings below those of the page, which ends with the second level.
type lower struct{}

func (lower) Transform(doc *ast.Document, _ markdowntext.Reader, _ parser.Context) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if heading, ok := n.(*ast.Heading); ok {
			heading.Level = min(heading.Level+2, 6)
		}
	}
}
