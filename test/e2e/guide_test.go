package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The programs of the guide that mint tokens, each with its language's own tools, as far
// as this machine has them.
func TestGuideTokens(t *testing.T) {
	t.Parallel()
	s := startServer(t, backends{})
	for _, tc := range []struct{ language, program, file, with string }{
		{"js", "node", "mint.mjs", "buyerToken"},
		{"python", "python3", "mint.py", "buyer_token"},
		{"java", "java", "Mint.java", "class Mint"},
		{"php", "php", "mint.php", "buyer_token"},
	} {
		t.Run(tc.language, func(t *testing.T) {
			program := servertest.Program(t, tc.program, tc.program)
			guide := snippets(t, "docs/integrate.md")
			dir := t.TempDir()
			write(t, filepath.Join(dir, tc.file), next(t, &guide, tc.language, tc.with))
			token := strings.TrimSpace(sh(t, dir, program+" "+tc.file,
				"PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "SLUICE_BUYER_SECRET="+buyerSecret))
			request := must.Get(http.NewRequest(http.MethodGet, s.url+"/v1/orders", nil))(t)
			request.Header.Set("Authorization", "Bearer "+token)
			answer := must.Get(http.DefaultClient.Do(request))(t)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("the token %s: %s", token, answer.Status)
			}
		})
	}
}

// The numbers that the guide makes of order ids for a provider with shorter ones fit it, differ, and lead back.
func TestGuideShorterOrderNumbers(t *testing.T) {
	t.Parallel()
	python := servertest.Program(t, "python3", "python3")
	guide, dir := snippets(t, "docs/integrate.md"), t.TempDir()
	sale := sluice.SaleID(strings.Repeat("s", 48))
	zeros, other := sale.Order(strings.Repeat("0", 32)), sale.Order("00ff10deadbeef7f80fbefbefffffffe")
	write(t, filepath.Join(dir, "numbers.py"), next(t, &guide, "python", "out_trade_no")+fmt.Sprintf(`
for id in "%s", "%s":
    for attempt in 1, 2, 999999999:
        print(out_trade_no(id, attempt), order_id("%s", out_trade_no(id, attempt)))
`, zeros, other, sale))
	out := strings.Fields(sh(t, dir, python+" numbers.py", "PATH="+os.Getenv("PATH")))
	if len(out) != 12 {
		t.Fatalf("%q", out)
	}
	takes, seen := regexp.MustCompile(`^[0-9A-Za-z_|*-]{6,32}$`), map[string]bool{}
	for i := 0; i < len(out); i += 2 {
		if number := out[i]; !takes.MatchString(number) || seen[number] {
			t.Errorf("the number %s", number)
		}
		seen[out[i]] = true
		if want := []sluice.OrderID{zeros, other}[i/6]; out[i+1] != string(want) {
			t.Errorf("%s leads back to %s, want %s", out[i], out[i+1], want)
		}
	}
}

// The program of the guide that follows a sale prints each order once, those before it and
// those after.
func TestGuideFollowsASale(t *testing.T) {
	t.Parallel()
	python := servertest.Program(t, "python3", "python3")
	guide, dir := snippets(t, "docs/integrate.md"), t.TempDir()
	write(t, filepath.Join(dir, "follow.py"), next(t, &guide, "python", "next_cursor"))
	s := startServer(t, backends{})
	buy := func(buyers string) string {
		return `for b in ` + buyers + `; do
	curl -X POST $SLUICE_URL/v1/sales/mug/orders -H "Authorization: Bearer $(sluice token --buyer $b)" \
		-H "Idempotency-Key: attempt-1" -d '{"quantity":1}'
done >/dev/null
until [ $(grep -c "" printed) = ` + strconv.Itoa(len(strings.Fields(buyers))) + ` ]; do sleep 0.05; done
`
	}
	out := sh(t, dir, `sluice sale create --id mug --title T --price 100 --total 9 >/dev/null
`+python+` -u follow.py >printed &
trap "kill $!" EXIT
`+buy("ann bob")+strings.Replace(buy("cid dan"), " = 2", " = 4", 1)+"cat printed",
		append(environment(), "SLUICE_URL="+s.url,
			"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))...)
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if f := strings.Fields(line); len(f) != 3 || f[1] != []string{"ann", "bob", "cid", "dan"}[i] || f[2] != "1" {
			t.Errorf("it prints\n%s", out)
		}
	}
}

// docs/events.md: what its programs take for a webhook of ours, and what they do not.
func TestGuideWebhooks(t *testing.T) {
	t.Parallel()
	const secret, body = "whsec_c2x1aWNlLXNlY3JldA==", `{"id":"evt_1"}`
	headers := func(age time.Duration, key string) string {
		at := strconv.FormatInt(time.Now().Add(-age).Unix(), 10)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("evt_1." + at + "." + body))
		signature := "v1,bm8= v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		return `{"webhook-id": "evt_1", "webhook-timestamp": "` + at + `", "webhook-signature": "` + signature + `"}`
	}
	good, forged, old := headers(0, "sluice-secret"), headers(0, "another"), headers(time.Hour, "sluice-secret")
	for _, tc := range []struct{ language, program, file, call string }{
		{"js", "node", "verify.cjs", "\nfor (const h of [%s, %s, %s]) console.log(verify('%s', h, Buffer.from('%s')));"},
		{"python", "python3", "verify.py", "\nfor h in [%s, %s, %s]: print(str(verify('%s', h, b'%s')).lower())"},
	} {
		t.Run(tc.language, func(t *testing.T) {
			program := servertest.Program(t, tc.program, tc.program)
			events := snippets(t, "docs/events.md")
			dir := t.TempDir()
			write(t, filepath.Join(dir, tc.file), next(t, &events, tc.language, "verify")+
				fmt.Sprintf(tc.call, good, forged, old, secret, body))
			out := sh(t, dir, program+" "+tc.file, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))
			if strings.Join(strings.Fields(out), " ") != "true false false" {
				t.Errorf("a good, a forged and an old one: %s", out)
			}
		})
	}
}

// docs/events.md: feed into a producer that fails after two events, then started again. Each event arrives as it is,
// with its key, and in order but for the two that are repeated.
func TestGuideFeedsAQueue(t *testing.T) {
	t.Parallel()
	servertest.Program(t, "jq", "jq")
	page, dir, s := snippets(t, "docs/events.md"), t.TempDir(), startServer(t, backends{})
	write(t, filepath.Join(dir, "feed"), replaceAll(t, next(t, &page, "bash", "PRODUCER"), "60", "2"))
	write(t, filepath.Join(dir, "producer"),
		"if mkdir failed; then head -n 2 >>topic; exit 1; fi 2>/dev/null\ncat >>topic\n")
	feed := strings.TrimSpace(replaceAll(t, next(t, &page, "sh", "kcat"), "-X enable.idempotence=true", "",
		`kcat -P -b kafka:9092 -t sluice-events -K '\t'`, "sh producer"))
	env := append(environment(), "SLUICE_URL="+s.url,
		"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	sh(t, dir, `sluice sale create --id mug --title T --price 100 --total 9
for b in ann bob cid; do
	curl -X POST $SLUICE_URL/v1/sales/mug/orders -H "Authorization: Bearer $(sluice token --buyer $b)" \
		-H "Idempotency-Key: attempt-1" -d '{"quantity":1,"meta":{"order_id":"none","n":1.10}}'
done
until [ $(sluice events --json | grep -c order.created) = 3 ]; do sleep 0.05; done
if `+feed+`; then echo "feed does not see that the producer has failed" >&2; exit 1; fi
`+feed+` & feed=$!
trap 'kill $feed; wait' EXIT
until grep -q order.created topic; do sleep 0.05; done
for order in $(sluice order list --sale mug --json | grep -o 'mug\.[0-9a-f]*'); do
	sluice order pay $order --payment-id $order
done
until [ $(grep -c order.paid topic) = 3 ] && [ "$(cat position)" = "$(tail -n 1 topic | cut -f 2 | jq -r .id)" ]
do sleep 0.05; done`, env...)
	events := strings.SplitAfter(sh(t, dir, "sluice events --json", env...), "\n")
	topic := strings.SplitAfter(read(t, filepath.Join(dir, "topic")), "\n")
	if len(topic) != len(events)+2 {
		t.Fatalf("%d lines arrived, of %d events and two that are repeated", len(topic)-1, len(events)-1)
	}
	for i, line := range topic[2 : len(topic)-1] {
		key, text, _ := strings.Cut(line, "\t")
		var event api.Event
		must.Succeed(t, json.Unmarshal([]byte(text), &event))
		if d := event.Data; text != events[i] || i < 2 && line != topic[i] ||
			d.Order != nil && key != string(d.Order.OrderID) || d.Sale != nil && key != string(d.Sale.ID) {
			t.Errorf("%s arrives as %s", events[i], line)
		}
	}
}

// What a repeat of an ended order's key means: the same answer, and nothing bought.
func TestGuideRepeatOfAnEndedOrder(t *testing.T) {
	t.Parallel()
	s := startServer(t, backends{})
	script := `
sluice sale create --id short --title T --price 100 --total 5 --max-per-buyer 1 >/dev/null
A="Authorization: Bearer $(sluice token --buyer alice)"
claim() { curl -X POST $SLUICE_URL/v1/sales/short/orders -H "$A" -H "Idempotency-Key: $1" -d '{"quantity":1}'; }
claim attempt-1
until sluice order list --sale short | grep -q alice; do sleep 0.01; done
sluice order cancel $(sluice order list --sale short --json | grep -o 'short\.[0-9a-f]*' | head -n 1) >/dev/null
until curl $SLUICE_URL/v1/sales/short | grep -q '"available":5'; do sleep 0.01; done
claim attempt-1
curl $SLUICE_URL/v1/orders -H "$A"
claim attempt-2
`
	out := sh(t, t.TempDir(), script, append(environment(), "SLUICE_URL="+s.url,
		"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || lines[0] != lines[1] || !strings.Contains(lines[1], `"status":"queued"`) ||
		!strings.Contains(lines[2], `"status":"cancelled"`) || strings.Contains(lines[2], `"status":"pending"`) ||
		lines[3] == lines[0] || !strings.Contains(lines[3], `"status":"queued"`) {
		t.Errorf("the claim, its repeat, the orders, another claim:\n%s", out)
	}
}
