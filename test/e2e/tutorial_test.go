package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// docs/tutorial.md from its first command to its last, on other ports: its shop in Node,
// its page in Chromium, its rush with the server killed meanwhile.
func TestTutorial(t *testing.T) {
	t.Parallel()
	servertest.Program(t, "node", "node")
	browser := servertest.Chromium(t)
	dir := t.TempDir()
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))
	addr, shop := freeAddr(t), freeAddr(t)
	here := strings.NewReplacer("127.0.0.1:8080", addr, "127.0.0.1:9000", shop,
		`listen(9000, "127.0.0.1")`, "listen("+shop[strings.LastIndex(shop, ":")+1:]+`, "127.0.0.1")`,
		"go build -o sluice ./cmd/sluice\n", "", "kill $SHOP $SERVER\n", "", // it is built, and the trap ends it
		"node shop.mjs &\nSHOP=$!\n", "node shop.mjs >shop.log 2>&1 &\nSHOP=$!\n")
	script := "SHOP= SERVER=\ntrap 'kill $SHOP $SERVER; wait' EXIT\ntrap exit INT\n"
	named := regexp.MustCompile(`^(?:// |<!doctype html>\n<!-- )([\w.]+):`)
	for _, s := range snippets(t, "docs/tutorial.md") {
		text := here.Replace(s.take())
		if s.language == "sh" {
			if strings.HasPrefix(s.text, "./sluice order list --sale mug\n") { // after what a person does
				script += "touch browse\nuntil [ -e browsed ]; do sleep 0.05; done\n"
			}
			script += text
			continue
		}
		name := named.FindStringSubmatch(s.text)
		if name == nil {
			t.Fatalf("a snippet without the name of its file:\n%s", s.text)
		}
		write(t, filepath.Join(dir, name[1]), text)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problems
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SLUICE_LISTEN=" + addr, "SLUICE_URL=http://" + addr}
	must.Succeed(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end := func() {
		if err := <-ended; err != nil {
			t.Fatalf("%v\n%s%s", err, &out, &problems)
		}
	}
	for ; ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "browse")); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s%s", err, &out, &problems)
		default:
		}
	}
	if err := buyOnThePage(ctx, browser, filepath.Join(dir, "profile"), "http://"+shop); err != nil {
		t.Error(err)
		cancel()
	}
	write(t, filepath.Join(dir, "browsed"), "")
	end()
	for _, want := range []string{
		"paid", `":"alice"`, "never got an answer      0", "Every promise was kept: 1000 orders.", "Everything adds up.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %s:\n%s%s", want, &out, &problems)
		}
	}
	if log := read(t, filepath.Join(dir, "shop.log")); log != "" {
		t.Error(log)
	}
}

// buyOnThePage signs in as alice, buys, pays, buys with the key from before, and in a
// new tab twice with others.
func buyOnThePage(ctx context.Context, program, profile, shop string) error {
	allocator, endAllocator := chromedp.NewExecAllocator(ctx, chromedp.ExecPath(program),
		chromedp.UserDataDir(profile), chromedp.NoFirstRun, chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	defer endAllocator()
	tab, endTab := chromedp.NewContext(allocator)
	defer endTab()
	shows := func(tab context.Context, expression string) error {
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			yes, err := chromedp.Run(tab, chromedp.Evaluate[bool]("Boolean("+expression+")"))
			if err == nil && yes {
				return nil
			}
			if time.Now().After(deadline) {
				text, _ := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
				return fmt.Errorf("%s is not so: %w; the page says %s", expression, err, text)
			}
		}
	}
	press := func(tab context.Context, button, result string) error {
		if err := shows(tab, `document.querySelector("`+button+`").checkVisibility()`); err != nil {
			return err
		}
		if err := chromedp.Do(tab, chromedp.Click(chromedp.CSS(button))); err != nil {
			return err
		}
		return shows(tab, `document.getElementById("result").textContent.startsWith("`+result+`")`)
	}
	visit := func(tab context.Context) error { return chromedp.Do(tab, chromedp.Navigate(shop)) }
	if err := visit(tab); err != nil {
		return err
	}
	if err := shows(tab, `document.getElementById("login").checkVisibility()`); err != nil {
		return err
	}
	if err := chromedp.Do(tab, chromedp.SendKeys(chromedp.CSS("input"), "alice\r")); err != nil {
		return err
	}
	for _, step := range []struct{ button, result string }{{"#buy", "reserved"}, {"#pay", "paid"}} {
		if err := press(tab, step.button, step.result); err != nil {
			return err
		}
	}
	if err := visit(tab); err != nil { // loads the page again
		return err
	}
	if err := press(tab, "#buy", "paid"); err != nil {
		return err
	}
	for _, result := range []string{"reserved", "at most two each"} {
		another, end := chromedp.NewContext(tab)
		defer end()
		if err := visit(another); err != nil {
			return err
		}
		if err := press(another, "#buy", result); err != nil {
			return err
		}
	}
	return nil
}
