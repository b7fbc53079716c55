// Site makes a static web site of the documents: the pages with navigation, in both
// languages, which work from a folder, without a server and without any other host. It
// fails if a link leads nowhere.
//
//	go run -C lab ./site .. ../site
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	render "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is where links to files lead that are no pages.
const repository = "https://github.com/sluicehq/sluice/blob/main/"

var (
	//go:embed page.html
	layout string
	//go:embed style.css
	style []byte

	page = template.Must(template.New("page").Parse(layout))
)

// group is a part of the navigation. Pages that no group names are in the last one.
type group struct {
	English, Chinese string
	names            []string
}

var groups = []group{
	{"Start", "入门", []string{"README", "docs/tutorial", "docs/faq", "docs/glossary", "docs/sizing", "docs/checklist"}},
	{"Use", "使用", []string{
		"docs/integrate", "docs/beside-a-shop", "docs/from-a-lua-script", "docs/components", "docs/clients",
		"docs/library", "docs/pages", "docs/codes", "docs/events", "docs/gate", "docs/tickets", "docs/identity",
	}},
	{"Run", "运行", []string{
		"docs/deploy", "docs/operating", "docs/releases", "docs/upgrading", "docs/redis-keys", "docs/personal-data",
		"SECURITY", "CHANGELOG",
	}},
	{"Understand", "了解", []string{
		"docs/architecture", "docs/orders", "docs/invariants", "docs/benchmarks", "docs/costs", "docs/articles",
		"docs/referee",
	}},
	{"Change", "开发", []string{"CONTRIBUTING"}},
}

const chinese = ".zh-CN"

// document is a page: its name is the path in the repository, without ".md".
type document struct {
	name     string
	title    string
	source   []byte
	tree     ast.Node
	sections []section
}

type section struct{ ID, Title string }

func (d *document) file() string { return strings.Replace(d.name, "README", "index", 1) + ".html" }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY FOLDER")
		os.Exit(1)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func build(from, to string) error {
	s := &site{from: from, pages: map[string]*document{}, files: map[string][]byte{"style.css": style}}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := s.read(file); err != nil {
				return err
			}
		}
	}
	for _, d := range s.pages {
		if err := s.write(d); err != nil {
			return fmt.Errorf("%s.md: %w", d.name, err)
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	for name, content := range s.files {
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d pages: %s\n", len(s.pages), filepath.Join(to, "index.html"))
	return nil
}

type site struct {
	from  string
	pages map[string]*document // by name
	files map[string][]byte    // what is written, by path
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.NewCJK(extension.WithEastAsianLineBreaks())),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(render.WithUnsafe()))

func (s *site) read(file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(s.from, strings.TrimSuffix(file, ".md"))
	if err != nil {
		return err
	}
	d := &document{name: filepath.ToSlash(name), source: source}
	d.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	for n := d.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			continue
		}
		id, _ := h.AttributeString("id")
		switch title := strings.ReplaceAll(string(h.Lines().Value(source)), "`", ""); {
		case h.Level == 1:
			d.title = title
		case h.Level == 2:
			d.sections = append(d.sections, section{string(id.([]byte)), title})
		}
	}
	s.pages[d.name] = d
	return nil
}

// ids makes the anchors of headings as GitHub does.
type ids map[string]bool

var slugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.ReplaceAll(slugged.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	unique := slug
	for n := 1; i[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	i[unique] = true
	return []byte(unique)
}

func (i ids) Put(value []byte) { i[string(value)] = true }

// target returns where a link of a page leads in the site. It takes along pictures.
func (s *site) target(d *document, link string) (string, error) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Path == "" {
		return link, err
	}
	file := path.Join(path.Dir(d.name), u.Path)
	if to, ok := s.pages[strings.TrimSuffix(file, ".md")]; ok {
		u.Path = relative(d, to.file())
		return u.String(), nil
	}
	switch path.Ext(file) {
	case ".svg", ".png":
		content, err := os.ReadFile(filepath.Join(s.from, filepath.FromSlash(file)))
		s.files[file] = content
		return link, err
	}
	_, err = os.Stat(filepath.Join(s.from, filepath.FromSlash(file)))
	return repository + file, err
}

// relative returns the path of a file from a page.
func relative(d *document, file string) string {
	return strings.Repeat("../", strings.Count(d.name, "/")) + file
}

var (
	source  = regexp.MustCompile(`(<img [^>]*src=")([^"]+)"`)
	heading = regexp.MustCompile(`<h([23]) id="([^"]+)">(.*)</h[23]>`)
	tables  = strings.NewReplacer("<table>", `<div class="wide"><table>`, "</table>", "</table></div>")
)

func (s *site) write(d *document) error {
	var problems []error
	follow := func(link string) string {
		to, err := s.target(d, link)
		problems = append(problems, err)
		return to
	}
	_ = ast.Walk(d.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				n.Destination = []byte(follow(string(n.Destination)))
			}
		case *ast.Image:
			if entering {
				n.Destination = []byte(follow(string(n.Destination)))
			}
		}
		return ast.WalkContinue, nil
	})
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, d.source, d.tree); err != nil {
		return err
	}
	for _, img := range source.FindAllStringSubmatch(body.String(), -1) {
		follow(img[2]) // of HTML in the document
	}
	content := heading.ReplaceAllString(tables.Replace(body.String()),
		`<h$1 id="$2">$3 <a class="anchor" href="#$2">#</a></h$1>`)
	isChinese := strings.HasSuffix(d.name, chinese)
	v := view{Title: d.title, Lang: "en", Switch: "中文", Body: template.HTML(content), Style: relative(d, "style.css")}
	other := d.name + chinese
	v.Home = relative(d, "index.html")
	if isChinese {
		v.Lang, v.Switch, other = "zh-CN", "English", strings.TrimSuffix(d.name, chinese)
		v.Home = relative(d, "index.zh-CN.html")
	}
	v.Other = relative(d, "index.zh-CN.html") // where there is no Chinese page
	if twin, ok := s.pages[other]; ok {
		v.Other = relative(d, twin.file())
	}
	v.Groups = s.navigation(d, isChinese)
	var out bytes.Buffer
	problems = append(problems, page.Execute(&out, v))
	s.files[d.file()] = out.Bytes()
	return errors.Join(problems...)
}

// view is what the layout shows.
type view struct {
	Title, Lang, Switch, Other, Home, Style string
	Body                                    template.HTML
	Groups                                  []links
}

type links struct {
	Title string
	Links []link
}

type link struct {
	Title, URL string
	Current    bool
	Sections   []section // of the current page
}

func (s *site) navigation(d *document, isChinese bool) (all []links) {
	named := map[string]bool{}
	for _, g := range groups {
		for _, name := range g.names {
			named[name] = true
		}
	}
	for i, g := range groups {
		names := g.names
		if i == len(groups)-1 {
			names = slices.Clone(names)
			for name := range s.pages {
				if !named[strings.TrimSuffix(name, chinese)] && !strings.HasSuffix(name, chinese) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
		}
		part := links{Title: g.English}
		if isChinese {
			part.Title = g.Chinese
		}
		for _, name := range names {
			to, mark := s.pages[name], ""
			if isChinese {
				if own, ok := s.pages[name+chinese]; ok {
					to = own
				} else {
					mark = "（英文）"
				}
			}
			if to == nil {
				continue
			}
			l := link{Title: to.title + mark, URL: relative(d, to.file()), Current: to == d}
			if l.Current {
				l.Sections = d.sections
			}
			part.Links = append(part.Links, l)
		}
		all = append(all, part)
	}
	return all
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor    = regexp.MustCompile(` id="([^"]*)"`)
)

// check says which links lead nowhere, and what a page would load from another host.
func (s *site) check() error {
	var problems []error
	for name, content := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, found := range reference.FindAllSubmatch(content, -1) {
			u, err := url.Parse(html.UnescapeString(string(found[1])))
			if err != nil || u.Scheme != "" {
				if bytes.HasPrefix(found[0], []byte("src")) {
					problems = append(problems, fmt.Errorf("%s: loads %s", name, found[1]))
				}
				continue
			}
			file := name
			if u.Path != "" {
				file = path.Join(path.Dir(name), u.Path)
			}
			to, ok := s.files[file]
			if ok && u.Fragment != "" {
				ok = slices.ContainsFunc(anchor.FindAllSubmatch(to, -1), func(id [][]byte) bool {
					return string(id[1]) == u.Fragment
				})
			}
			if !ok {
				problems = append(problems, fmt.Errorf("%s: %s leads nowhere", name, found[1]))
			}
		}
	}
	return errors.Join(problems...)
}
