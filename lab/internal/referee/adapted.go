package referee

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Shop is the System that an adapter describes.
type Shop struct {
	a      *Adapter
	dir    string // of this run
	names  map[string]string
	parts  []*process
	tokens map[string]string // by buyer
	http   *http.Client
}

// Make runs the adapter's build commands. Their output goes into the folder.
func (a *Adapter) Make(ctx context.Context, folder string) error {
	var err error
	if a.build, err = filepath.Abs(folder); err != nil {
		return err
	}
	s, err := a.Shop(folder, 0)
	if err != nil {
		return err
	}
	return s.commands(ctx, buildWithin, a.Build)
}

// What commands may take: those of build, and those that break, mend and end.
const buildWithin, commandsWithin = time.Hour, time.Minute

// Trial returns how the adapter's crowd tries its shop. The caller adds the faults.
func (a *Adapter) Trial(seed uint64) Trial {
	c := a.Crowd
	return Trial{
		Name: a.Name, Buyers: c.Buyers, Units: c.Units, Seed: seed, Connections: c.Connections,
		Lost: c.Lost, Reload: c.Reload, Again: c.Again,
		Timeout: time.Duration(c.Timeout), RetryFor: time.Duration(c.RetryFor), Settle: time.Duration(c.Settle),
		Quiet: time.Duration(c.Quiet), Down: time.Duration(c.Down),
	}
}

// Shop prepares the shop for one trial. Its files go into the folder.
func (a *Adapter) Shop(folder string, seed uint64) (*Shop, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	s := &Shop{a: a, dir: dir, names: map[string]string{
		"dir": dir, "build": a.build, "folder": a.Folder, "seed": strconv.FormatUint(seed, 10),
		"sale": "referee-" + strings.ToLower(rand.Text()[:12]),
	}}
	for name, value := range a.Set {
		s.names[name] = value
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	for _, found := range placed.FindAllString(string(text), -1) {
		if name := strings.Trim(found, "{}"); strings.HasPrefix(name, "port.") && s.names[name] == "" {
			if s.names[name], err = freePort(); err != nil {
				return nil, err
			}
		}
	}
	s.http = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: max(a.Crowd.Connections, 64), MaxIdleConns: 0},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	for _, p := range a.Processes {
		env := os.Environ()
		for name, value := range p.Env {
			env = append(env, name+"="+s.fill(value, nil))
		}
		s.parts = append(s.parts, &process{
			name: p.Name, folder: a.Folder, log: filepath.Join(dir, p.Name+".log"), line: s.fillAll(p.Start), env: env,
			url: s.fill(p.Ready.URL, nil), tcp: s.fill(p.Ready.TCP, nil),
		})
	}
	return s, nil
}

// Faults returns the adapter's faults, each as often as it says.
func (s *Shop) Faults() []Fault {
	var all []Fault
	for _, plan := range s.a.Faults {
		f := Fault{
			Name:  plan.Name,
			Break: func(ctx context.Context) error { return s.commands(ctx, commandsWithin, plan.Break) },
			Mend:  func(ctx context.Context) error { return s.commands(ctx, commandsWithin, plan.Mend) },
		}
		for _, p := range s.parts {
			switch {
			case plan.Break != nil || p.name != plan.Name:
			case plan.How == "freeze":
				f.Name = "freeze " + p.name
				f.Break = func(context.Context) error { return p.freeze(freezeGroup) }
				f.Mend = func(context.Context) error { return p.freeze(thawGroup) }
			default:
				f.Name = "kill " + p.name
				f.Break = func(context.Context) error { return p.kill() }
				f.Mend = p.start
			}
		}
		for range plan.Times {
			all = append(all, f)
		}
	}
	return all
}

// Start starts the processes, one after the other.
func (s *Shop) Start(ctx context.Context) error {
	for _, p := range s.parts {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return s.getTokens(ctx)
}

// Close kills the processes, the last first.
func (s *Shop) Close() error {
	var all []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		all = append(all, p.kill())
		if p.crashes > 0 {
			all = append(all, fmt.Errorf("%s ended by itself %d times%s", p.name, p.crashes, p.tail()))
		}
	}
	s.http.CloseIdleConnections()
	return errors.Join(append(all, s.commands(context.Background(), commandsWithin, s.a.End))...)
}

// Reset takes the adapter's steps.
func (s *Shop) Reset(ctx context.Context, units int) error {
	s.names["units"] = strconv.Itoa(units)
	ctx, cancel := context.WithTimeout(ctx, commandsWithin)
	defer cancel()
	for i, step := range s.a.Reset {
		var err error
		if step.Command != nil {
			_, err = s.run(ctx, step.Command, nil)
		} else {
			_, err = s.want2xx(ctx, step.Request, nil)
		}
		if err != nil {
			return fmt.Errorf("reset[%d]: %w", i, err)
		}
	}
	return nil
}

// Buy sends the adapter's request, and judges the answer by its rules.
func (s *Shop) Buy(ctx context.Context, buyer, key string) (Answer, error) {
	names := map[string]string{"buyer": buyer, "key": key, "token": s.tokens[buyer]}
	status, body, err := s.ask(ctx, *s.a.Buy, names, 1<<20)
	if err != nil {
		return Answer{}, errors.New(inShort(err))
	}
	return s.a.judge(status, body), nil
}

// judge finds the rule that fits.
func (a *Adapter) judge(status int, body []byte) Answer {
	tree, _ := parse(body) // what is not JSON has no fields
	for _, r := range a.Answers {
		value, found := field(tree, r.Field)
		switch {
		case r.Status != 0 && r.Status != status:
		case r.Field != "" && (!found || r.Is != "" && value != r.Is):
		case !bytes.Contains(body, []byte(r.Contains)):
		default:
			answer := Answer{Kind: r.kind, Said: strconv.Itoa(status)}
			if r.Is != "" {
				answer.Said += " " + r.Is
			}
			if r.Order != "" {
				if answer.Order, found = field(tree, r.Order); !found {
					answer.Said += " without " + r.Order
				}
			}
			return answer
		}
	}
	text := bytes.Join(bytes.Fields(body), []byte(" ")) // in one line
	return Answer{Kind: Unknown, Said: fmt.Sprintf("%d %.80s (no rule)", status, text)}
}

// Orders lists all pages, or what the command prints.
func (s *Shop) Orders(ctx context.Context) ([]Order, error) {
	o := s.a.Orders
	if o.Command != nil {
		out, err := s.run(ctx, o.Command, nil)
		if err != nil {
			return nil, err
		}
		return ordersOfLines(out)
	}
	all := []Order{}
	for cursor := ""; ; {
		body, err := s.want2xx(ctx, o.Request, map[string]string{"cursor": cursor})
		if err != nil {
			return nil, err
		}
		tree, err := parse(body)
		value, found := at(tree, o.List)
		list, isList := value.([]any)
		switch {
		case err != nil:
			return nil, fmt.Errorf("orders.url: the answer is not JSON: %w: %.200s", err, body)
		case !found && cursor == "": // some leave an empty list out, but a wrong name must not hide all orders
			return nil, fmt.Errorf("orders.list: the answer has no %q: %.200s", o.List, body)
		case !isList && value != nil:
			return nil, fmt.Errorf("orders.list: %q is no list: %.200s", o.List, body)
		}
		for _, item := range list {
			id, found := field(item, o.ID)
			if o.ID != "" && !found {
				return nil, fmt.Errorf("orders.id: an order has no %q: %v", o.ID, item)
			}
			buyer, found := field(item, o.Buyer)
			if !found {
				return nil, fmt.Errorf("orders.buyer: an order has no %q: %v", o.Buyer, item)
			}
			all = append(all, Order{ID: id, Buyer: buyer})
		}
		next, _ := field(tree, o.Next)
		switch {
		case o.Next == "" || next == "" || next == "null":
			return all, nil
		case next == cursor:
			return nil, fmt.Errorf("orders.next: the page after cursor %q is itself", cursor)
		}
		cursor = next
	}
}

// ordersOfLines reads lines "ID BUYER", with a space, a tab or a comma between.
func ordersOfLines(text []byte) ([]Order, error) {
	all := []Order{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
		if len(words) != 2 {
			return nil, fmt.Errorf(`orders.command: line %d: want "ID BUYER": %q`, n, line)
		}
		all = append(all, Order{ID: words[0], Buyer: words[1]})
	}
	return all, lines.Err()
}

// want2xx sends a request that must succeed.
func (s *Shop) want2xx(ctx context.Context, r Request, more map[string]string) ([]byte, error) {
	status, body, err := s.ask(ctx, r, more, 64<<20) // a page of orders is the longest
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s answers %d: %.200s", s.fill(r.URL, more), status, bytes.TrimSpace(body))
	}
	return body, err
}

// ask sends a request with its names filled in. Its answer has so many bytes at most.
func (s *Shop) ask(ctx context.Context, r Request, more map[string]string, most int64) (int, []byte, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, s.fill(r.URL, more), strings.NewReader(s.fill(r.Body, more)))
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil // the crowd repeats requests, and counts them; the client must not
	for name, value := range r.Headers {
		req.Header.Set(name, s.fill(value, more))
	}
	res, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if int64(len(body)) > most {
		err = fmt.Errorf("an answer of more than %d bytes", most)
	}
	return res.StatusCode, body, err
}

// commands run one after the other.
func (s *Shop) commands(ctx context.Context, within time.Duration, lines [][]string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, line := range lines {
		if _, err := s.run(ctx, line, nil); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command and returns what it printed.
func (s *Shop) run(ctx context.Context, line []string, input []byte) ([]byte, error) {
	line = s.fillAll(line)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = s.a.Folder, bytes.NewReader(input), &said
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay):
		err = errors.New("it left a program that writes to its output: let it write to a file (>log 2>&1)")
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %.500s", line, err, bytes.TrimSpace(append(said.Bytes(), out...)))
	}
	return out, nil
}

// fill replaces {names}.
func (s *Shop) fill(text string, more map[string]string) string {
	return placed.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "{}")
		if value, ok := more[name]; ok {
			return value
		}
		if value, ok := s.names[name]; ok {
			return value
		}
		return found
	})
}

func (s *Shop) fillAll(line []string) []string {
	all := make([]string, len(line))
	for i, word := range line {
		all[i] = s.fill(word, nil)
	}
	return all
}

// freePort is one that was free a moment ago, below those that outgoing
// connections get: it must be free when a process that was killed comes back.
func freePort() (string, error) {
	for range 100 {
		port := strconv.Itoa(15000 + mathrand.IntN(15000))
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no free port of 127.0.0.1")
}

// getTokens makes each buyer's token.
func (s *Shop) getTokens(ctx context.Context) error {
	t := s.a.Tokens
	if t == nil {
		return nil
	}
	buyers := make([]string, s.a.Crowd.Buyers)
	for i := range buyers {
		buyers[i] = buyerName(i)
	}
	s.tokens = make(map[string]string, len(buyers))
	if t.HS256 != "" {
		secret := []byte(s.fill(t.HS256, nil))
		for _, buyer := range buyers {
			s.tokens[buyer] = signToken(secret, buyer, time.Now())
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandsWithin)
	defer cancel()
	out, err := s.run(ctx, t.Command, []byte(strings.Join(buyers, "\n")+"\n"))
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	tokens := strings.Fields(string(out))
	if len(tokens) != len(buyers) {
		return fmt.Errorf("tokens: %d buyers, and the command printed %d tokens: want one a line", len(buyers), len(tokens))
	}
	for i, buyer := range buyers {
		s.tokens[buyer] = tokens[i]
	}
	return nil
}

// signToken makes a JWT (HS256) that is valid for a day.
func signToken(secret []byte, buyer string, now time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims, _ := json.Marshal(map[string]any{"sub": buyer, "iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix()})
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
