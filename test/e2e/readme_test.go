package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The README's lines for a program with Sluice in it compile.
func TestReadmeEmbeds(t *testing.T) {
	t.Parallel()
	page, file := snippets(t, "README.md"), filepath.Join(t.TempDir(), "main.go")
	write(t, file, `package main

import (
	"context"
	"log"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
)

func visitor(*http.Request) (sluice.BuyerID, error) { return "ann", nil }

func main() {
	ctx := context.Background()
`+next(t, &page, "go", "engine.Open")+"}\n")
	vet := exec.Command("go", "vet", file)
	vet.Dir = filepath.Join("..", "..")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// curl is as much of that program as the README and the scripts need, for
// machines that lack it: -X METHOD, -H HEADER, -d BODY, -o FILE, -i and the URL.
func curl() {
	request, err := http.NewRequest("GET", "", nil)
	if err != nil {
		panic(err)
	}
	var body, target string
	show, out := false, os.Stdout
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		switch option := args[0]; option {
		case "-i":
			show = true
			continue
		case "-X", "-H", "-d", "-o":
			args = args[1:]
			switch option {
			case "-X":
				request.Method = args[0]
			case "-H":
				name, value, _ := strings.Cut(args[0], ": ")
				request.Header.Set(name, value)
			case "-d":
				body = args[0]
			case "-o":
				if out, err = os.Create(args[0]); err != nil {
					panic(err)
				}
			}
		default:
			target = option
		}
	}
	if err := fetch(request, target, body, out, show); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(7)
	}
}

func fetch(request *http.Request, target, body string, out io.Writer, show bool) (err error) {
	if request.URL, err = request.URL.Parse(target); err != nil {
		return err
	}
	if body != "" {
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext} // no proxy
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if show {
		fmt.Fprintln(out, answer.Proto, answer.Status)
		if err := answer.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	_, err = io.Copy(out, answer.Body)
	return err
}
