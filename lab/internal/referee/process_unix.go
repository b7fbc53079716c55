//go:build unix

package referee

import (
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup lets a process and its children be killed together.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) error   { return syscall.Kill(-pid, syscall.SIGKILL) }
func freezeGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGSTOP) }
func thawGroup(pid int) error   { return syscall.Kill(-pid, syscall.SIGCONT) }

// watchdog ends the group when its standard input ends: a referee that was killed
// can end nothing itself. A signal to the referee's own group does not reach it.
func watchdog(pid int) *exec.Cmd {
	cmd := exec.Command("sh", "-c", `cat >/dev/null; kill -9 -"$0"`, strconv.Itoa(pid))
	ownGroup(cmd)
	return cmd
}
