package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"
)

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward forwards an address to a port of a pod of Portcullis until stop is called.
func forward(t *testing.T, pod string, port int) (address string, stop func()) {
	t.Helper()
	cmd := exec.Command(target.kubectl[0], slices.Concat(target.kubectl[1:], []string{
		"port-forward", "--address=127.0.0.1", "-n", system, "pod/" + pod, fmt.Sprintf(":%d", port),
	})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script may have started kubectl
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	said := make([]byte, 4096)
	n, err := out.Read(said)
	found := forwarding.FindSubmatch(said[:n])
	if err != nil || found == nil {
		stop()
		t.Fatalf("kubectl port-forward says %q: %v", said[:n], err)
	}
	return string(found[1]), stop
}

// atForward is a program that reaches what forward returns. Its standard input is empty.
func atForward(program ...string) *exec.Cmd {
	if target.script != "" {
		program = append([]string{target.script, "node", "0"}, program...) // where the script's kubectl listens
	}
	return exec.Command(program[0], program[1:]...)
}
