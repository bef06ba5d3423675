package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// row is a cluster, and what is found in it: rule, point, objects and who wins, in a line each.
type row struct {
	in   snapshot.Snapshot
	want []string
	says string // in the text of the first finding
	// level is that of the first finding, empty for any.
	level Level
}

// clusters are the rows of all files.
var clusters = []map[string]row{entryRows, pathRows, listenerRows, routeRows, addressRows, nodePortRows, annotationRows}

// began is when the first object was made.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// meta is that of the object made so many hours after the first one.
func meta(key string, hours int) metav1.ObjectMeta {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(began.Add(time.Duration(hours) * time.Hour))}
}

func service(key string, hours int, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(key, hours), Spec: corev1.ServiceSpec{Ports: ports}}
}

// tcp is a port of a Service that leads to a port of its pods.
func tcp(number int32, target int) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("p%d", number), Protocol: corev1.ProtocolTCP, Port: number, TargetPort: intstr.FromInt(target)}
}

// whole is a snapshot of which all kinds were read.
func whole(s snapshot.Snapshot) *snapshot.Snapshot {
	for _, kind := range []string{"Namespace", "Service", "Node", "Ingress", "Gateway", "ListenerSet", "ConfigMap", "TCPRoute", "UDPRoute", "TLSRoute", "HostPolicy"} {
		s.MarkRead(kind, "")
	}
	if s.NodePorts == (snapshot.Range{}) {
		s.NodePorts = snapshot.DefaultNodePorts
	}
	return &s
}

func lines(found []Finding) (lines []string) {
	for i := range found {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s %s: %s, %s", found[i].Rule, found[i].Point, names(found[i].Objects), found[i].Wins), ", "))
	}
	return lines
}

func TestFindings(t *testing.T) {
	for _, rows := range clusters {
		for name, r := range rows {
			t.Run(name, func(t *testing.T) {
				found := All(whole(r.in))
				if diff := cmp.Diff(r.want, lines(found)); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
				for i := range found {
					if found[i].Text == "" || found[i].Advice == "" || found[i].Level == "" {
						t.Errorf("says too little: %+v", found[i])
					}
				}
				if r.level != "" && (len(found) == 0 || found[0].Level != r.level) {
					t.Errorf("want a finding of level %s: %+v", r.level, found)
				}
				if r.says != "" && (len(found) == 0 || !strings.Contains(found[0].Text, r.says)) {
					t.Errorf("%q is not said: %+v", r.says, found)
				}
			})
		}
	}
}

// TestEveryRuleIsTested holds that the rows have a finding of each rule.
func TestEveryRuleIsTested(t *testing.T) {
	untested := map[string]bool{}
	for _, about := range Rules() {
		untested[string(about.Rule)] = true
	}
	for _, rows := range clusters {
		for _, r := range rows {
			for _, line := range r.want {
				rule, _, _ := strings.Cut(line, " ")
				delete(untested, rule)
			}
		}
	}
	if len(untested) > 0 {
		t.Errorf("no row has %v", slices.Sorted(maps.Keys(untested)))
	}
}

func TestNothingIsFoundOfWhatWasNotRead(t *testing.T) {
	for _, rows := range clusters {
		for name, r := range rows {
			s := r.in
			s.Services, s.Nodes, s.Gateways, s.ListenerSets = nil, nil, nil, nil
			for _, f := range All(&s) {
				if f.Rule == EntryLeadsNowhere && strings.Contains(f.Text, "there is no") || f.Rule == RouteNeverServes {
					t.Errorf("%s: found %s %s: %s", name, f.Rule, f.Point, f.Text)
				}
			}
		}
	}
}

// TestNobodyWinsForSure holds that nobody is said to win where there may be somebody older in a namespace that was not read.
func TestNobodyWinsForSure(t *testing.T) {
	for _, rows := range []map[string]row{pathRows, listenerRows, routeRows} {
		for name, r := range rows {
			s := whole(r.in)
			for _, kind := range []string{"Ingress", "ListenerSet", "TCPRoute", "UDPRoute", "TLSRoute"} {
				s.MarkRead(kind, "a")
			}
			for _, f := range All(s) {
				if f.Wins != "" && f.Wins != Undetermined {
					t.Errorf("%s: %s %s is won by %s", name, f.Rule, f.Point, f.Wins)
				}
			}
		}
	}
}

func TestMisses(t *testing.T) {
	s := &snapshot.Snapshot{}
	for _, kind := range []string{"ConfigMap", "Service", "Ingress", "Gateway", "HostPolicy"} {
		s.MarkRead(kind, "a")
	}
	for _, about := range Rules() {
		if got := about.Misses(s, "a"); (got != "") != (about.Rule == RouteNeverServes) {
			t.Errorf("%s, of the namespace that was read: misses %q", about.Rule, got)
		}
		if about.Misses(s, "") == "" {
			t.Errorf("%s has seen all", about.Rule)
		}
	}
	whole := whole(snapshot.Snapshot{})
	whole.MarkUnread(types.NamespacedName{Namespace: "edge", Name: "tcp"})
	for _, about := range Rules() {
		if got := about.Misses(whole, ""); (got != "") != (len(about.Needs) > 0 && about.Needs[0] == "ConfigMap") {
			t.Errorf("%s, with a ConfigMap that could not be read: misses %q", about.Rule, got)
		}
	}
}

func TestList(t *testing.T) {
	for want, words := range map[string][]string{
		"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"},
		"a, b, c, d, e, f and others": {"a", "b", "c", "d", "e", "f", "g", "h"},
	} {
		if got := list(words); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
