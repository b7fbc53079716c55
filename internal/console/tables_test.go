package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// A list is typed or uploaded, and emptied, by those who may; a wrong one leaves it as it was.
func TestLists(t *testing.T) {
	r := newRig(t)
	r.sale("phone", "Phone")
	const page, replace = "/admin/lists/phone.deny", "/admin/lists/phone.deny/replace"
	listed := func() []sluice.BuyerID {
		return must.Get(r.api.Buyers(t.Context(), "phone", sluice.DenyList, sluice.MaxPage, ""))(t).Buyers
	}
	wants := func(what string, status, wanted int, body, says string, buyers ...sluice.BuyerID) {
		t.Helper()
		if got := listed(); status != wanted || !strings.Contains(body, says) || !slices.Equal(got, buyers) {
			t.Errorf("%s: %d, want %d and %q; on the list are %d %.60q, want %q\n%.3000s", what, status, wanted, says,
				len(got), got, buyers, body)
		}
	}
	b := r.signedIn(operatorKey)
	_, stale := b.get(replace)
	status, body := b.press(replace, "buyers", "mallory\r\n\r\nadam <i>\r\n")
	wants("two buyers", status, http.StatusOK, body, "The list is replaced.", "adam <i>", "mallory")
	if !strings.Contains(body, "adam &lt;i&gt;") || !strings.Contains(body, "buyer=adam%20%3ci%3e") {
		t.Errorf("the page of the list:\n%s", body)
	}
	if _, form := b.get(replace); !strings.Contains(form, ">\nadam &lt;i&gt;\nmallory\n</textarea>") {
		t.Errorf("the form does not have the list:\n%s", form)
	}
	form := map[string][]string{"buyers": {"eve"}, "was": {""}, "token": {hidden.FindStringSubmatch(stale)[2]}}
	status, body = b.post(replace, form)
	wants("a form from before", status, http.StatusUnprocessableEntity, body, "another upload", "adam <i>", "mallory")
	status, body = b.press(replace, "buyers", "eve\n\"carol\"\n")
	wants("quotes", status, http.StatusBadRequest, body, "line 2", "adam <i>", "mallory")
	if !strings.Contains(body, "\neve\n&#34;carol&#34;\n</textarea>") {
		t.Errorf("the refused form does not keep what was typed:\n%s", body)
	}
	status, body = b.press(replace, "buyers", " \r\n")
	wants("nobody", status, http.StatusUnprocessableEntity, body, "there is no buyer", "adam <i>", "mallory")
	for _, file := range []string{"", "\ufeff\r\n \r\n"} {
		status, body = b.upload(replace, replace, "file", []byte(file), "buyers", "eve")
		wants("a file of nobody", status, http.StatusUnprocessableEntity, body, "there is no buyer", "adam <i>", "mallory")
		if strings.Contains(body, "eve") { // which would be the list if the form was sent again without the file
			t.Errorf("the form goes on with what the file was taken in place of:\n%s", body)
		}
	}
	status, body = b.upload(replace, replace, "file", make([]byte, 17<<20))
	wants("a huge file", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")
	status, body = b.press(replace, "buyers", strings.Repeat("eve\n", 1<<18))
	wants("a huge text", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")
	status, body = b.upload(replace, replace, "file", []byte("eve"), "buyers", strings.Repeat("x", 1<<20+1))
	wants("a huge text with a file", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")

	viewer := r.signedIn(viewerKey)
	if status, body := viewer.get(page); status != http.StatusOK || !strings.Contains(body, "mallory") ||
		strings.Contains(body, "/replace") || strings.Contains(body, "/clear") {
		t.Errorf("a viewer's page: %d\n%s", status, body)
	}
	_, body = viewer.get("/admin/sales/phone")
	_, now := b.get(replace)
	was := regexp.MustCompile(`name="was" value="(.+)"`).FindStringSubmatch(now)[1]
	form = map[string][]string{"token": {hidden.FindStringSubmatch(body)[2]}, "was": {was}}
	status, body = viewer.post("/admin/lists/phone.deny/clear", form)
	wants("a viewer empties it", status, http.StatusForbidden, body, "operator", "adam <i>", "mallory")
	status, body = viewer.upload("/admin/sales/phone", replace, "file", []byte("eve"))
	wants("a viewer's file", status, http.StatusForbidden, body, "The role of your key", "adam <i>", "mallory")
	status, body = b.upload("/admin/assets/none", replace, "file", []byte("eve"), "was", "")
	wants("a file without a token", status, http.StatusForbidden, body, "load it again", "adam <i>", "mallory")

	status, body = b.press("/admin/lists/phone.deny/clear")
	wants("empty it", status, http.StatusOK, body, "The list is empty.")
	var lines strings.Builder
	for i := range 2*sluice.MaxPage + 1 {
		fmt.Fprintf(&lines, "buyer-%04d-%0100d\n", i, i)
	}
	t.Setenv("TMPDIR", "/no/such/folder") // a server may have none to write to
	status, body = b.upload(replace, replace, "file", []byte(lines.String()+strings.Repeat("\n", 2<<20)))
	if page := listed(); status != http.StatusOK || len(page) != sluice.MaxPage || !strings.Contains(body, ">2,001<") {
		t.Errorf("a file: %d, a page of %d\n%s", status, len(page), body)
	}
	if _, form := b.get(replace); !strings.Contains(form, ">\n</textarea>") {
		t.Errorf("the form has a part of a long list, which would take its place:\n%.3000s", form)
	}
	for _, path := range []string{
		"/admin/lists/phone.none", "/admin/lists/none.deny", "/admin/lists/phone", "/admin/lists/.deny",
		"/admin/lists/%2e%2e",
	} {
		if status, body := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d\n%s", path, status, body)
		}
	}
	if _, body = b.get("/admin/lists/phone.allow"); !strings.Contains(body, "does not ask for it") {
		t.Errorf("the allow list of a sale for all:\n%s", body)
	}
	must.Get(r.api.PatchSale(t.Context(), "phone", api.PatchSale{
		PatchRules: api.PatchRules{Eligibility: api.Value(sluice.EligibleList)},
	}))(t)
	if _, body = b.get("/admin/lists/phone.allow?lang=zh"); !strings.Contains(body, "只有名单上的买家") {
		t.Errorf("the allow list of a sale that asks for it:\n%s", body)
	}
}
