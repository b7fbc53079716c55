package auth

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
)

func TestSpellingsOfABuyer(t *testing.T) {
	for _, c := range []struct{ id, trimmed, casefolded string }{
		{"alice", "alice", "alice"},
		{"Alice@Shop.example", "Alice@Shop.example", "alice@shop.example"},
		{" alice\t", "alice", "alice"},
		{"\u3000alice\u00a0", "alice", "alice"},                        // wide and no-break spaces
		{"ＡＬＩＣＥ", "ＡＬＩＣＥ", "alice"},                                    // full width
		{"ⓐlice", "ⓐlice", "alice"},                                    // a circled letter
		{"Straße", "Straße", "strasse"},                                // folded in full
		{"é", "é", "é"},                                                // composed,
		{"e\u0301", "e\u0301", "é"},                                    // and not
		{"ΣΊΣΥΦΟΣ", "ΣΊΣΥΦΟΣ", "σίσυφοσ"},                              // one sigma
		{"İ", "İ", "i\u0307"},                                          // of no language
		{"用户一", "用户一", "用户一"},                                          // has no case
		{"a b", "a b", "a b"},                                          // within
		{"\u00a8x", "\u00a8x", "\u0308x"},                              // a space that the form NFKC makes is trimmed as well
		{"аlice", "аlice", "аlice"},                                    // a Cyrillic letter is another one
		{"Ꭰꭰᏸ", "Ꭰꭰᏸ", "ᎠᎠᏰ"},                                          // Cherokee, to upper case
		{"\u0345x", "\u0345x", "ιx"},                                   // folds to a letter
		{"ﬀ", "ﬀ", "ff"},                                               // a ligature
		{"  ", "", ""},                                                 // nothing is left
		{strings.Repeat("\ufdfa", 8), strings.Repeat("\ufdfa", 8), ""}, // too long by then
	} {
		for mode, want := range map[string]string{"": c.id, ExactID: c.id, TrimmedID: c.trimmed, CasefoldID: c.casefolded} {
			if mode == "" || mode == ExactID {
				if strings.ContainsRune(c.id, '\t') {
					want = ""
				}
			}
			got, err := NewVerifier(Options{BuyerID: mode}).BuyerID(sluice.BuyerID(c.id))
			if string(got) != want && err == nil || (err == nil) != (want != "") {
				t.Errorf("%q, %s: %q, %v; want %q", c.id, mode, got, err, want)
			}
		}
	}
}

// An id that has its one spelling keeps it, and both cases of a letter have the same.
func FuzzSpellingsOfABuyer(f *testing.F) {
	for _, seed := range []string{"alice", " Straße\u00a0", "ﬀ\u0345\u0308İ", "\u1e9e\u0390\u03b0", "ｱﾞ\u3099"} {
		f.Add(seed)
	}
	v := NewVerifier(Options{BuyerID: CasefoldID})
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r++ {
		if !unicode.IsLetter(r) {
			continue
		}
		if _, err := casefold(string(r)); err != nil {
			f.Errorf("%U: %v", r, err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := v.BuyerID(sluice.BuyerID(text))
		if err != nil {
			if err == errUnfolded {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if twice, err := v.BuyerID(once); err != nil || twice != once {
			t.Errorf("%q is %q, and that %q, %v", text, once, twice, err)
		}
		small, large := strings.ToLower(text), strings.ToUpper(text)
		if lower, err := v.BuyerID(sluice.BuyerID(small)); err == nil && lower != once &&
			!strings.ContainsAny(text, "İıẞ") && strings.ToUpper(small) == large && strings.ToLower(large) == small {
			t.Errorf("%q is %q, in lower case %q", text, once, lower)
		}
	})
}
