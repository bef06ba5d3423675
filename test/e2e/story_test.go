package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// logLine is what the tests read of a line of the log.
type logLine struct {
	Time       time.Time `json:"ts"`
	Pod, Event string
}

// leads is the identity of the replica that leads.
func leads(t *testing.T) (identity string) {
	t.Helper()
	return kubectl(t, "get", "lease", "portcullis", "-n", "portcullis-system", "-o", "jsonpath={.spec.holderIdentity}")
}

// leaderLog is the log of the replica that leads, as far as its node still has it; read is false in the moment in which it is
// rotated.
func leaderLog(t *testing.T, holder string) (lines []logLine, read bool) {
	t.Helper()
	leader, _, _ := strings.Cut(holder, "_")
	out, err := tryKubectl("", "logs", "-n", "portcullis-system", "--tail=-1", leader)
	if err != nil {
		t.Log(err)
		return nil, false
	}
	for text := range strings.Lines(out) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines, true
}

// TestLogTellsTheStoryOfAPod lets a Pod live and end, and reads of it in the log. On a cluster whose nodes share one
// machine, kubelets throw each other's logs away now and then: then another Pod lives.
func TestLogTellsTheStoryOfAPod(t *testing.T) {
	want := []string{"added", "scheduled", "ip_assigned", "ready", "terminating", "gone"}
	ns := newNamespace(t, "story")
	for attempt := range 20 { // what is written in the seconds after a loss is lost, too
		name := fmt.Sprintf("hero-%d", attempt)
		begin, teller := time.Now().Add(-time.Second), leads(t) // the log has whole seconds
		kubectl(t, "run", name, "-n", ns, "--image="+target.pause, "--restart=Never")
		kubectl(t, "wait", "--for=condition=Ready", "pod/"+name, "-n", ns, "--timeout="+patience.String())
		kubectl(t, "delete", "pod", name, "-n", ns)
		lost, told := readStory(t, ns+"/"+name, want, begin, teller)
		if !lost {
			t.Logf("the story of %s/%s: %s", ns, name, strings.Join(told, ", "))
			return
		}
		t.Logf("the log has lost its beginning, so that the story is told as %v", told)
	}
	t.Fatal("the log is lost again and again")
}

// readStory waits until the log tells of a Pod what is wanted, or has lost what it told at the beginning: by then another may lead than the
// teller, who knows the Pod as it finds it.
func readStory(t *testing.T, pod string, want []string, begin time.Time, teller string) (lost bool, told []string) {
	t.Helper()
	eventually(t, "the story of "+pod, func() error {
		leading := leads(t)
		lines, read := leaderLog(t, leading)
		told = nil
		for _, line := range lines {
			// A Pod that obeys has finished, too, before it is gone.
			if line.Pod == pod && line.Event != "completed" {
				told = append(told, line.Event)
			}
		}
		complete := slices.Equal(told, want)
		// A log that was thrown away stays empty until something happens again.
		lost = !complete && read && (leading != teller || len(lines) == 0 || !lines[0].Time.Before(begin))
		if !complete && !lost {
			return fmt.Errorf("it is told as %v, want %v", told, want)
		}
		return nil
	})
	return lost, told
}
