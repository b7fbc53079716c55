package servertest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// A .c file among the Go files would be compiled with them.
//
//go:embed clock/clock.c
var clockSource string

// StartRedisWithClock is StartRedis with a wall clock of its own, which set puts
// ahead of the machine's by whole seconds, or behind it, while the server runs.
func StartRedisWithClock(t testing.TB, args ...string) (s *RedisServer, set func(ahead time.Duration)) {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		Unavailable(t, "gcc", "no gcc on the PATH")
	}
	dir := t.TempDir()
	library := filepath.Join(dir, "clock.so")
	cmd := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-o", library, "-")
	cmd.Stdin = strings.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	file := must.Get(os.Create(filepath.Join(dir, "ahead")))(t)
	t.Cleanup(func() { file.Close() })
	set = func(ahead time.Duration) {
		t.Helper()
		seconds := binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second))
		must.Get(file.WriteAt(seconds, 0))(t)
	}
	set(0)
	env := []string{"LD_PRELOAD=" + library, "SLUICE_TEST_CLOCK=" + file.Name()}
	return startOwn(t, &RedisServer{t: t, program: redisProgram(t), args: args, env: env}), set
}
