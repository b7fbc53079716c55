package tickets

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The page's solver finds what this package accepts: the same hash, whatever
// the length of the challenge, and the first nonce.
func TestSolverOfThePage(t *testing.T) {
	node := servertest.Program(t, "node", "node")
	source := must.Get(os.ReadFile(filepath.Join("..", "..", "clients", "typescript", "pow.js")))(t)
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "pow.mjs"), source, 0o600))
	type task struct {
		Challenge  string `json:"challenge"`
		Difficulty int    `json:"difficulty"`
	}
	k := keys(t, "secret", "")
	var tasks []task
	for _, difficulty := range []int{1, 8, 13} {
		challenge, _ := k.Challenge("phones", "ann", difficulty, clock)
		tasks = append(tasks, task{challenge, difficulty})
	}
	for length := 1; length <= 130; length++ { // every place of the end within a block
		tasks = append(tasks, task{strings.Repeat("x", length), 5})
	}
	tasks = append(tasks, task{"手机", 6})
	input := must.Get(json.Marshal(tasks))(t)
	script := `import { solve } from "./pow.mjs";
		import { readFileSync } from "node:fs";
		const nonces = [];
		for (const { challenge, difficulty } of JSON.parse(readFileSync(0, "utf8"))) nonces.push(await solve(challenge, difficulty));
		let refused = 0;
		for (const wrong of [["", 8], ["x", 0], ["x", 31], ["x", 1.5], ["x"]]) await solve(...wrong).catch(() => refused++);
		await solve("x", 30, () => {}, AbortSignal.timeout(1)).catch(() => refused++);
		let told = [];
		await solve("progress", 16, (done) => told.push(done));
		process.stdout.write(JSON.stringify({ nonces, refused, told: told.every((d) => d >= 0 && d < 1) }));`
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "run.mjs"), []byte(script), 0o600))
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "run.mjs"))
	cmd.Stdin = strings.NewReader(string(input))
	cmd.Stderr = os.Stderr
	output := must.Get(cmd.Output())(t)
	var got struct {
		Nonces  []string `json:"nonces"`
		Refused int      `json:"refused"`
		Told    bool     `json:"told"`
	}
	if err := json.Unmarshal(output, &got); err != nil || len(got.Nonces) != len(tasks) {
		t.Fatalf("%s: %v", output, err)
	}
	for i, task := range tasks {
		if want := solve(task.Challenge, task.Difficulty); got.Nonces[i] != want {
			t.Errorf("challenge of %d bytes, difficulty %d: nonce %q, want %q", len(task.Challenge), task.Difficulty,
				got.Nonces[i], want)
		}
	}
	if err := k.CheckSolution(tasks[2].Challenge, got.Nonces[2], "phones", "ann", 13, clock); err != nil {
		t.Errorf("its solution of a real challenge: %v", err)
	}
	if got.Refused != 6 || !got.Told {
		t.Errorf("%d of 6 wrong calls refused, progress between 0 and 1: %v", got.Refused, got.Told)
	}
}
