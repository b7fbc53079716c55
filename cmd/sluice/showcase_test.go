package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// What a sale shows, as it is typed: what is not given stays, in the other language too, and new
// pictures are there before those that they replace go.
func TestShowcase(t *testing.T) {
	s, dir := serve(t), t.TempDir()
	file := func(name string) string {
		picture := must.Get(os.ReadFile("../../internal/demo/pictures/" + name + ".jpg"))(t)
		path := filepath.Join(dir, name+".any")
		must.Succeed(t, os.WriteFile(path, picture, 0o600))
		return path
	}
	lamp, teapot, sneaker := file("lamp"), file("teapot"), file("sneaker")
	shown := func(args ...string) api.AdminSale {
		t.Helper()
		return okJSON[api.AdminSale](t, s.env, append([]string{"sale"}, args...)...)
	}
	sale := shown("create", "--id", "lamp", "--title", "T", "--title-en", "Lamp", "--price", "1", "--total", "5",
		"--description-zh", "灯", "--badge", "New", "--picture", lamp)
	first := sale.Pictures.Names()
	if len(first) != 1 || sale.Badge != "New" || sale.Titles.EN != "Lamp" {
		t.Fatalf("%+v", sale.Showcase)
	}
	sale = shown("patch", "lamp", "--title-zh", "台灯", "--description-en", "A lamp", "--picture", teapot,
		"--picture", lamp)
	if sale.Titles.EN != "Lamp" || sale.Titles.ZH != "台灯" || sale.Descriptions.EN != "A lamp" ||
		sale.Descriptions.ZH != "灯" || sale.Badge != "New" || len(sale.Pictures.Names()) != 2 {
		t.Errorf("%+v", sale.Showcase)
	}
	second := sale.Pictures.Names()[1]
	sale = shown("patch", "lamp", "--picture", "none", "--picture", teapot, "--picture", lamp)
	if got := sale.Pictures.Names(); !slices.Equal(got, []string{second, first[0]}) {
		t.Errorf("%q: not in the order that was given", got)
	}
	for args, want := range map[string]string{
		"--picture https://cdn.shop.example/x.jpg":                           "picture_hosts",
		"--picture none --picture https://cdn.shop.example/x.jpg":            "picture_hosts",
		"--picture " + sneaker + " --picture https://cdn.shop.example/x.jpg": "picture_hosts", // neither is added
		"--picture http://cdn.shop.example/x.jpg":                            "or an https address",
		"--picture " + lamp + " --picture none":                              "none comes first",
		strings.Repeat("--picture "+lamp+" ", 9):                             "at most 8",
		"--picture " + filepath.Join(dir, "none.jpg"):                        "none.jpg",
		"--picture showcase_test.go":                                         "want JPEG, PNG or WebP",
		"--description " + strings.Repeat("a", 4001):                         "at most 4000 bytes",
	} {
		got := command(t, s.env, append([]string{"sale", "patch", "lamp"}, strings.Fields(args)...)...)
		if got.code == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%.60s: %+v", args, got)
		}
	}
	if now := shown("show", "lamp"); !slices.Equal(now.Pictures.Names(), sale.Pictures.Names()) {
		t.Errorf("after what was refused: %q", now.Pictures.Names())
	}
	if sale = shown("patch", "lamp", "--picture", "none"); len(sale.Pictures.Names()) != 0 || sale.Titles.EN != "Lamp" {
		t.Errorf("%+v", sale.Showcase)
	}
}
