// Cast runs a command in a terminal of 80 columns and draws what it prints, as it
// prints it, in an animated SVG:
//
//	go run -C lab ./cast ../docs/images/demo.svg ../bin/sluice demo
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
)

const (
	columns = 80
	rows    = 60      // more than a command prints: nothing scrolls away, and the picture is cut below the last line
	maxSize = 400_000 // bytes: a README with a larger picture loads slowly
)

// chunk is output that the command wrote at once.
type chunk struct {
	At   time.Duration // since the command began
	Text []byte        // may end within a character, which the next chunk completes
}

func main() {
	keep := flag.String("keep", "", "also write what was recorded to this `file`, as the test reads it")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: cast [-keep FILE] PICTURE COMMAND [ARGUMENT...]")
		os.Exit(1)
	}
	if err := cast(flag.Arg(0), *keep, flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cast:", err)
		os.Exit(2)
	}
}

func cast(picture, keep string, command []string) error {
	recording, err := record(command)
	if err != nil {
		return err
	}
	if keep != "" {
		text, err := json.Marshal(recording)
		if err != nil {
			return err
		}
		if err := os.WriteFile(keep, text, 0o644); err != nil {
			return err
		}
	}
	svg := draw(recording)
	if len(svg) > maxSize {
		return fmt.Errorf("the picture has %d bytes, more than %d", len(svg), maxSize)
	}
	return os.WriteFile(picture, svg, 0o644)
}

// record runs a command in a pseudo-terminal and returns what it prints, after the line that a person types to run it.
func record(command []string) ([]chunk, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor")
	start := time.Now()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	typed := strings.Join(append([]string{filepath.Base(command[0])}, command[1:]...), " ")
	recording := []chunk{{0, []byte("\x1b[1m$ " + typed + "\x1b[m\r\n")}}
	buffer := make([]byte, 64<<10)
	for {
		n, err := terminal.Read(buffer)
		if n > 0 {
			recording = append(recording, chunk{time.Since(start), []byte(string(buffer[:n]))})
		}
		if err == io.EOF || errors.Is(err, syscall.EIO) { // EIO: Linux, when the last program has closed the terminal
			return recording, cmd.Wait()
		}
		if err != nil {
			return nil, errors.Join(err, cmd.Wait())
		}
	}
}
