package main

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
)

// What a shell asks for at the Tab key is answered with what the server has.
func TestCompletion(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "A phone", "--price", "1", "--total", "3",
		"--opens-at", "+1h")
	hook := okJSON[api.Webhook](t, s.env, "webhook", "create", "http://127.0.0.1:1/hook")
	for typed, want := range map[string]string{
		"sale show ":            "phone\tupcoming, A phone\n",
		"sale patch ":           "phone\t",
		"sale show phone ":      "",
		"sale create ":          "",
		"order list --sale ":    "phone\t",
		"load --sale=":          "phone\t",
		"order list --status ":  "refund_due\n",
		"webhook replay ":       string(hook.ID) + "\thttp://127.0.0.1:1/hook\n",
		"webhook create ":       "",
		"backup ":               "",
		"sa":                    "sale\t",
		"completion ":           "bash\t",
		"sale show --url x:// ": "", // no such server
	} {
		args := append([]string{"__complete"}, strings.Split(typed, " ")...)
		out := ok(t, s.env, args...)
		if !strings.Contains(out, want) || want == "" && !strings.HasPrefix(out, ":") {
			t.Errorf("%q: %q, want %q", typed, out, want)
		}
	}
	if out := command(t, nil, "__complete", "sale", "show", "").out; !strings.HasPrefix(out, ":") {
		t.Errorf("without a server: %q", out)
	}
	if script := ok(t, nil, "completion", "bash"); !strings.Contains(script, "__start_sluice") {
		t.Errorf("%.200s", script)
	}
	if got := command(t, nil, "completion", "tcsh"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}
