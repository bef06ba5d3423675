package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
)

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward forwards an address to a port of a pod of Portcullis until stop is called. An error may be gone when it is tried again.
func forward(pod string, port int) (address string, stop func(), err error) {
	cmd := exec.Command(target.kubectl[0], slices.Concat(target.kubectl[1:], []string{
		"port-forward", "--address=127.0.0.1", "-n", system, "pod/" + pod, fmt.Sprintf(":%d", port),
	})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script may have started kubectl
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
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
		return "", nil, fmt.Errorf("kubectl port-forward says %q: %w", said[:n], err)
	}
	return string(found[1]), stop, nil
}

// atForward is a program that reaches what forward returns. Its standard input is empty.
func atForward(program ...string) *exec.Cmd {
	if target.script != "" {
		program = append([]string{target.script, "node", "0"}, program...) // where the script's kubectl listens
	}
	return exec.Command(program[0], program[1:]...)
}
