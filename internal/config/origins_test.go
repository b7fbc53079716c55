package config

import (
	"slices"
	"strings"
	"testing"
)

func TestOrigins(t *testing.T) {
	c, err := Load(Source{Environ: []string{"SLUICE_CORS_ORIGINS=https://shop.example, http://localhost:3000"}})
	if err != nil || !slices.Equal(c.CORSOrigins, []string{"https://shop.example", "http://localhost:3000"}) {
		t.Errorf("origins %v, %v", c.CORSOrigins, err)
	}
	if c, err := Load(Source{}); err != nil || len(c.CORSOrigins) != 0 {
		t.Errorf("unless set: %v, %v", c.CORSOrigins, err)
	}
	for bad, why := range map[string]string{
		"*": "exact", "shop.example": "scheme", "https://a.example https://b.example/": "alone", "https://A.example": "lower case",
		"https://a.example:443": "no port", "null": "scheme",
	} {
		_, err := Load(Source{Environ: []string{"SLUICE_CORS_ORIGINS=" + bad}})
		if err == nil || !strings.Contains(err.Error(), "cors_origins") || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want a word on %q", bad, err, why)
		}
	}
}
