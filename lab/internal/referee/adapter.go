package referee

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Adapter says how a shop is started, asked and read. It is a file in JSON;
// docs/referee.md explains its fields. Texts may hold {names}, which are replaced.
type Adapter struct {
	Name   string            `json:"name"`
	About  string            `json:"about"`
	Folder string            `json:"folder"` // of all commands; relative to that of the file
	Set    map[string]string `json:"set"`    // names of the file's own

	Build     [][]string  `json:"build"`     // commands, run once
	Processes []Process   `json:"processes"` // started in this order
	End       [][]string  `json:"end"`       // commands, run at the end
	Reset     []Step      `json:"reset"`
	Tokens    *Tokens     `json:"tokens"`
	Buy       *Request    `json:"buy"`
	Answers   []Rule      `json:"answers"`
	Orders    *Listing    `json:"orders"`
	Crowd     Habits      `json:"crowd"`
	Faults    []PlanFault `json:"faults"`

	build string // folder of what Build makes
}

// Process is a program of the shop.
type Process struct {
	Name  string            `json:"name"`
	Start []string          `json:"start"`
	Env   map[string]string `json:"env"`
	Ready Ready             `json:"ready"`
}

// Ready is how one sees that a process can be asked. One of its fields is set.
type Ready struct {
	URL string `json:"url"` // answers 2xx
	TCP string `json:"tcp"` // accepts connections
}

// Request is one of HTTP.
type Request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// Step is a request that must be answered with 2xx, or a command that must
// succeed.
type Step struct {
	Request
	Command []string `json:"command"`
}

// Tokens says where the buyers' tokens come from. One of its fields is set.
type Tokens struct {
	HS256   string   `json:"hs256"`   // secret of JWTs with sub, iat and exp
	Command []string `json:"command"` // reads a buyer a line, and prints a token a line
}

// Rule says what an answer means. The first that fits decides; an answer that fits
// none is unknown.
type Rule struct {
	Status   int    `json:"status"`   // 0: any
	Field    string `json:"field"`    // of the JSON, with dots: "data.code"
	Is       string `json:"is"`       // its value; as text, if it is another kind of value
	Contains string `json:"contains"` // text somewhere in the body
	Means    string `json:"means"`
	Order    string `json:"order"` // field of the order's id

	kind Kind
}

// Listing says how orders are listed.
type Listing struct {
	Request
	List  string `json:"list"`  // field that holds the list; empty: the answer is it
	ID    string `json:"id"`    // field of an order
	Buyer string `json:"buyer"` // the same
	Next  string `json:"next"`  // field of the next page's cursor; empty or null: the last page

	Command []string `json:"command"` // or: prints a line "ID BUYER" for each order
}

// Habits are the crowd's, as Trial has them.
type Habits struct {
	Buyers      int      `json:"buyers"`
	Units       int      `json:"units"`
	Connections int      `json:"connections"`
	Lost        float64  `json:"lost"`
	Reload      float64  `json:"reload"`
	Again       float64  `json:"again"`
	Timeout     Duration `json:"timeout"`
	RetryFor    Duration `json:"retry_for"`
	Settle      Duration `json:"settle"`
	Quiet       Duration `json:"quiet"`
	Down        Duration `json:"down"`
}

// PlanFault is what is broken, and how often: a process by its name, or anything
// by commands.
type PlanFault struct {
	Name  string     `json:"name"`
	Times int        `json:"times"` // default 1
	How   string     `json:"how"`   // of a process: "kill" (SIGKILL and a new start) or "freeze" (SIGSTOP, SIGCONT)
	Break [][]string `json:"break"`
	Mend  [][]string `json:"mend"`
}

// Duration is written as Go does: "1.5s", "200ms".
type Duration time.Duration

func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	if err == nil {
		var parsed time.Duration
		if parsed, err = time.ParseDuration(s); err == nil && parsed >= 0 {
			*d = Duration(parsed)
			return nil
		}
	}
	return fmt.Errorf(`%s: want a duration like "500ms" or "1m"`, text)
}

// ReadAdapter reads and checks a file. set replaces values of its "set".
func ReadAdapter(file string, set map[string]string) (*Adapter, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a, err := parseAdapter(text, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !filepath.IsAbs(a.Folder) {
		a.Folder = filepath.Join(filepath.Dir(file), a.Folder)
	}
	if a.Folder, err = filepath.Abs(a.Folder); err != nil {
		return nil, err
	}
	if info, err := os.Stat(a.Folder); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: folder: %s is none", file, a.Folder)
	}
	return a, nil
}

func parseAdapter(text []byte, set map[string]string) (*Adapter, error) {
	var wrong *json.SyntaxError
	if err := json.Unmarshal(text, new(any)); errors.As(err, &wrong) {
		return nil, fmt.Errorf("line %d: not JSON: %w", 1+bytes.Count(text[:wrong.Offset], []byte("\n")), err)
	}
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := fits("", tree, reflect.TypeFor[Adapter]()); err != nil {
		return nil, err
	}
	a := &Adapter{Crowd: Habits{
		Buyers: 5000, Units: 200, Connections: 64, Lost: 0.05, Reload: 0.05, Down: Duration(500 * time.Millisecond),
	}}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := a.Set[name]; !ok {
			return nil, fmt.Errorf(`"set" has no %q; it has: %s`, name, strings.Join(slices.Sorted(maps.Keys(a.Set)), ", "))
		}
		a.Set[name] = set[name]
	}
	return a, a.check()
}
