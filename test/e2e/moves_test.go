package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// standing is where a stream stands.
type standing struct {
	Metadata struct {
		Name       string
		Generation int64
	}
	Status struct {
		ClassName  string
		Conditions []struct {
			Type, Status       string
			ObservedGeneration int64
			LastTransitionTime time.Time
		}
	}
}

// behind says since when a stream is open behind a class, and why it is not.
func (s standing) behind(class string) (since time.Time, err error) {
	for _, c := range s.Status.Conditions {
		if c.Type == "Programmed" && c.Status == "True" && c.ObservedGeneration == s.Metadata.Generation && s.Status.ClassName == class {
			return c.LastTransitionTime, nil
		}
	}
	return since, fmt.Errorf("%s is of class %s, with %v", s.Metadata.Name, s.Status.ClassName, s.Status.Conditions)
}

// moved waits until all streams of a namespace are open behind a class, and returns since when the first of them is.
func moved(t *testing.T, namespace, class string) (first time.Time) {
	t.Helper()
	eventually(t, "the streams to be open behind "+class, func() error {
		first = time.Time{}
		streams, err := list[standing]("streamingress", "-n", namespace)
		for _, s := range streams {
			since, errMoves := s.behind(class)
			if errMoves != nil {
				return errMoves
			}
			if first.IsZero() || since.Before(first) {
				first = since
			}
		}
		return err
	})
	return first
}

// TestStreamsMove moves streams from one class to another and back, while clients connect to the door that they have: each is answered
// there until the other is open, and for five seconds more. Then clients connect to that one: each is answered there while the
// former closes, and afterwards.
func TestStreamsMove(t *testing.T) {
	const here, there = "10.77.0.212", "10.77.0.213"
	ns := answering(t, "moves", 2, "")
	echoes(t, ns)
	classes := map[string]string{
		here: kernelClass(t, "e2e-moves-here", here, ""), there: kernelClass(t, "e2e-moves-there", there, ""),
	}
	movesUnderVisits(t, ns, classes, here, there)
}

// movesUnderVisits opens streams of the class at one address, and moves them to that at the other and back, while clients connect to the
// door that they have.
func movesUnderVisits(t *testing.T, ns string, classes map[string]string, here, there string) {
	t.Helper()
	atNode(t, 0, here)
	atNode(t, 1, there)
	for _, protocol := range []string{"TCP", "UDP"} {
		if err := open(ns, strings.ToLower(protocol), classes[here], protocol, 80, "{service: echo, port: 80}"); err != nil {
			t.Fatal(err)
		}
	}
	moved(t, ns, classes[here])
	reachedBy(t, here+":80", "tcp", "udp")
	for _, move := range [][2]string{{here, there}, {there, here}} {
		from, to := move[0], move[1]
		t.Logf("from %s to %s", from, to)
		before := visiting(t, from)
		for _, name := range []string{"tcp", "udp"} {
			kubectl(t, "patch", "streamingress", name, "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"className":%q}}`, classes[to]))
		}
		opened := moved(t, ns, classes[to])
		reachedBy(t, to+":80", "tcp", "udp")
		after := visiting(t, to)
		closed(t, "tcp", from+":80")
		closed(t, "udp", from+":80")
		before.wereAnsweredUntil(t, opened.Add(5*time.Second))
		after.wereAnswered(t)
	}
}
