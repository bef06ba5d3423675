package e2e

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// visitors ask at addresses from outside the cluster, ten times a second each, by TCP and by UDP.
type visitors struct {
	visits []*visit
}

// visit is one program that asks at one address.
type visit struct {
	where string
	cmd   *exec.Cmd
	leave io.Closer
	said  bytes.Buffer
}

// visiting lets the client outside ask at port 80 of addresses, until they leave or the test ends.
func visiting(t *testing.T, addresses ...string) *visitors {
	t.Helper()
	binary, err := echo()
	if err != nil {
		t.Fatal(err)
	}
	all := &visitors{}
	for _, address := range addresses {
		for _, protocol := range []string{"tcp", "udp"} {
			v := &visit{where: protocol + " " + address}
			v.cmd = exec.Command(target.script, "client", binary, "visit", protocol, address+":80")
			v.cmd.Stdout, v.cmd.Stderr = &v.said, &v.said
			if v.leave, err = v.cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			if err := v.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = v.leave.Close() })
			all.visits = append(all.visits, v)
		}
	}
	return all
}

// wereAnswered ends the visits, and fails the test with each that was not answered. It returns how many those were.
func (all *visitors) wereAnswered(t *testing.T) (failed int) {
	t.Helper()
	return all.wereAnsweredUntil(t, time.Now().Add(time.Hour)) // all that there were
}

// wereAnsweredUntil does the same with the visits that began before a time, and ended within a second after it: what is closed by then may
// refuse one that a busy machine has let wait.
func (all *visitors) wereAnsweredUntil(t *testing.T, until time.Time) (failed int) {
	t.Helper()
	for _, v := range all.visits {
		if err := v.leave.Close(); err != nil {
			t.Fatal(err)
		}
		if err := v.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", v.where, err)
		}
		lines := strings.Split(strings.TrimSpace(v.said.String()), "\n")
		last := lines[len(lines)-1]
		t.Logf("%s: %s", v.where, last)
		if !strings.HasSuffix(last, " visits") || last == "0 visits" {
			t.Errorf("%s: the visitor did not come to an end: %s", v.where, last)
		}
		failures := slices.DeleteFunc(lines[:len(lines)-1], func(failure string) bool {
			times, _, _ := strings.Cut(failure, ": ")
			began, ended, _ := strings.Cut(times, " ")
			first, err := time.Parse(time.RFC3339Nano, began)
			last, errLast := time.Parse(time.RFC3339Nano, ended)
			return err == nil && errLast == nil && (!first.Before(until) || last.After(until.Add(time.Second)))
		})
		failed += len(failures)
		for i, failure := range failures {
			if i == enough {
				t.Errorf("%s: and so on, %d in all", v.where, len(failures))
				break
			}
			t.Errorf("%s was not answered at %s", v.where, failure)
		}
	}
	return failed
}
