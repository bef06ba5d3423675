package podtoip

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// inShort are the kinds of transitions, each with the IPs before, where they changed.
func inShort(transitions []Transition) string {
	words := make([]string, 0, len(transitions))
	for _, e := range transitions {
		word := string(e.Kind)
		if len(e.Former) > 0 {
			word += "(" + strings.Join(e.Former, ",") + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestTransitions(t *testing.T) {
	pending := running(node(""), phase(corev1.PodPending))
	serving := running(ips("10.0.3.7"), ready(corev1.ConditionTrue))
	done := running(ips("10.0.3.7"), ready(corev1.ConditionFalse), phase(corev1.PodSucceeded))
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          string
	}{
		"created":                      {nil, pending, "added"},
		"created and seen late":        {nil, serving, "added scheduled ip_assigned ready"},
		"nothing new":                  {serving, serving.DeepCopy(), ""},
		"scheduled":                    {pending, running(phase(corev1.PodPending)), "scheduled"},
		"its IP":                       {running(), running(ips("10.0.3.7")), "ip_assigned"},
		"a second IP":                  {running(ips("10.0.3.7")), running(ips("10.0.3.7", "fd00::7")), "ip_changed(10.0.3.7)"},
		"another IP":                   {running(ips("10.0.3.7")), running(ips("10.0.3.8")), "ip_changed(10.0.3.7)"},
		"the same IP in other letters": {running(ips("fd00::7")), running(ips("FD00::0007")), ""},
		"no IP":                        {running(ips("10.0.3.7")), running(), "ip_lost(10.0.3.7)"},
		"ready":                        {running(ips("10.0.3.7"), ready(corev1.ConditionFalse)), serving, "ready"},
		"not ready":                    {serving, running(ips("10.0.3.7"), ready(corev1.ConditionFalse)), "not_ready"},
		"terminating":                  {serving, running(ips("10.0.3.7"), ready(corev1.ConditionTrue), terminating), "terminating"},
		"not ready as it terminates":   {serving, running(ips("10.0.3.7"), ready(corev1.ConditionFalse), terminating), "terminating"},
		"completed":                    {serving, done, "completed"},
		"evicted":                      {serving, running(ips("10.0.3.7"), phase(corev1.PodFailed)), "completed"},
		"it ends as it terminates":     {running(terminating), running(terminating, phase(corev1.PodFailed)), "completed"},
		"gone":                         {serving, nil, "gone"},
		"replaced, unseen":             {serving, running(uid("two"), node("")), "gone added"},
		"replaced, seen late":          {serving, running(uid("two"), ips("10.0.3.7")), "gone added scheduled ip_assigned"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inShort(Transitions(c.before, c.after)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEachTransitionNamesItsPod(t *testing.T) {
	former, successor := running(ips("10.0.3.7")), running(uid("two"), ips("10.0.3.8"))
	for _, e := range Transitions(former, successor) {
		if want := map[bool]*corev1.Pod{true: former, false: successor}[e.Kind == Gone]; e.Pod != want {
			t.Errorf("%s is told of the Pod %s, want %s", e.Kind, e.Pod.UID, want.UID)
		}
	}
}

func TestKindsAreAllInWords(t *testing.T) {
	for _, kind := range Kinds {
		if kind.Verb() == "" {
			t.Errorf("%s has no words", kind)
		}
	}
	for kind := range verbs {
		if !slices.Contains(Kinds, kind) {
			t.Errorf("%s is missing in Kinds", kind)
		}
	}
}
