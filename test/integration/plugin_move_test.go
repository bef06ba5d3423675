package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/plugin"
)

// fleet are streams that the plugin moves from one class to another.
type fleet struct {
	*fixture
	user     string
	from, to *edge
	streams  []*v1beta1.StreamIngress
}

const (
	fleetSize = 50
	// unlucky is the stream whose port somebody else has in the class to which it moves.
	unlucky   = 25
	fleetPort = 20000
)

// newFleet makes both classes, the streams, and somebody who may read and patch streams, and nothing else.
func (w *fixture) newFleet() *fleet {
	f := &fleet{fixture: w, user: "fleet-operator", from: w.newEdge("fleet-old"), to: w.newEdge("fleet-new", autoAssign(30000, 30099))}
	w.create(namespace("fleet-a"), namespace("fleet-b"), service("fleet-a/web", port("http", 80)), service("fleet-b/web", port("http", 80)))
	for i := range fleetSize {
		s := sti(fmt.Sprintf("fleet-a/mover-%02d", i), of("fleet-old"), tcp(int32(fleetPort+i)))
		f.streams = append(f.streams, s)
		w.create(s)
	}
	w.programmed(f.streams...)
	rule := rbacv1.PolicyRule{APIGroups: []string{v1beta1.GroupName}, Resources: []string{"streamingresses"}, Verbs: []string{"get", "list", "patch"}}
	meta := metav1.ObjectMeta{Name: f.user}
	w.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: f.user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: f.user}},
	})
	w.awaitRight(f.user, true, &authorizationv1.ResourceAttributes{
		Namespace: "fleet-a", Group: v1beta1.GroupName, Resource: "streamingresses", Verb: "patch",
	})
	return f
}

// moves runs the plugin, which has to end with a status and say some words.
func (f *fleet) moves(status int, args string, words ...string) {
	f.t.Helper()
	got, out, errOut := f.plugin(f.user, append([]string{"move", "--timeout", patience.String()}, strings.Fields(args)...)...)
	if got != status {
		f.t.Errorf("move %s ended with %d, want %d:\n%s%s", args, got, status, out, errOut)
	}
	mustContain(f.t, out+errOut, words...)
}

// versions are those of all streams.
func (f *fleet) versions() (all []string) {
	for _, s := range f.streams {
		f.get(s)
		all = append(all, s.Name+" "+s.ResourceVersion)
	}
	return all
}

// TestPluginMove has the plugin move 50 streams from class to class, is stopped by one that is refused and by a class that opens nothing, and
// goes on. Whatever happens, each stream is open in one of the classes at any moment.
func TestPluginMove(t *testing.T) {
	w := shared(t)
	f := w.newFleet()
	rival := sti("fleet-b/rival", of("fleet-new"), tcp(fleetPort+unlucky))
	w.create(rival)
	w.programmed(rival)
	history := f.history()

	t.Log("a dry run changes nothing")
	before := f.versions()
	f.moves(plugin.ExitFine, "--from fleet-old --to fleet-new -n fleet-a --dry-run=client", "fleet-a/mover-49 moved (dry run)")
	f.moves(plugin.ExitFindings, "--from fleet-old --to fleet-new -A --dry-run=server", "fleet-a/mover-49 moved (server dry run)",
		"fleet-a/mover-25 was not moved: ", "held by StreamIngress fleet-b/rival", "1 of 50 would be refused")
	if after := f.versions(); !slices.Equal(before, after) {
		t.Errorf("it has changed %v to %v", before, after)
	}

	t.Log("one that is refused stops it, those before it have arrived, and those after it are as they were")
	f.moves(plugin.ExitFindings, "--from fleet-old --to fleet-new -n fleet-a --batch 7", "fleet-a/mover-24 moved, TCP/20024",
		"fleet-a/mover-25 was not moved: ", "held by StreamIngress fleet-b/rival", "stopped: 25 of 50 moved")
	for i, s := range f.streams {
		w.get(s)
		want := "fleet-new"
		if i >= unlucky {
			want = "fleet-old"
		}
		if s.Spec.ClassName != want || !isProgrammed(s) || s.Status.ClassName != want {
			t.Errorf("%s names class %s, is of %s, and has %v", s.Name, s.Spec.ClassName, s.Status.ClassName, s.Status.Conditions)
		}
	}

	t.Log("mended, it goes on")
	w.delete(rival)
	f.to.heldBy("fleet-new", TCP, fleetPort+unlucky, "")
	f.moves(plugin.ExitFine, "--from fleet-old --to fleet-new -A", "fleet-a/mover-25 moved, TCP/20025", "fleet-a/mover-49 moved, TCP/20049",
		"25 moved from class fleet-old to class fleet-new")
	for i, s := range f.streams {
		w.moved(s, "fleet-new")
		f.to.leads(TCP, int32(fleetPort+i), "fleet-a/web:80")
		f.from.leads(TCP, int32(fleetPort+i), "closed")
		f.from.heldBy("fleet-old", TCP, int32(fleetPort+i), "")
	}
	f.changedTheClassAlone()
	f.moves(plugin.ExitFine, "--from fleet-old --to fleet-new -A", "no StreamIngress of class fleet-old is left to move")

	t.Log("back, and a class that opens nothing")
	w.delete(f.from.proxy())
	f.moves(plugin.ExitFindings, "--from fleet-new --to fleet-old -n fleet-a --timeout 5s mover-00", "fleet-a/mover-00 is not open in class fleet-old after 5s",
		"stays open in class fleet-new until it is in class fleet-old",
		"to have it back: kubectl portcullis move -n fleet-a --from fleet-old --to fleet-new mover-00")
	f.moves(plugin.ExitFine, "-n fleet-a --from fleet-old --to fleet-new mover-00", "fleet-a/mover-00 moved, TCP/20000")
	f.moves(plugin.ExitFindings, "--from fleet-new --to fleet-old -n fleet-a --timeout 5s mover-00", "stopped: 0 of 1 moved")
	f.moves(plugin.ExitFindings, "--from fleet-new --to fleet-old -n fleet-a --timeout 5s mover-00", "fleet-a/mover-00 names class fleet-old already: waiting")
	w.create(f.from.proxy()) // from now on it may arrive by itself
	f.moves(plugin.ExitFine, "--from fleet-new --to fleet-old -n fleet-a mover-00 mover-01", "fleet-a/mover-01 moved, TCP/20001")
	w.moved(f.streams[0], "fleet-old")
	history.mustHold(w)
	f.runsExamples()
}

// runsExamples runs the examples of the help, with other names.
func (f *fleet) runsExamples() {
	s := sti("fleet-b/postgres", of("fleet-old"), tcp(5432))
	f.create(s)
	f.programmed(s)
	n := 0
	for _, line := range plugin.Examples() {
		args := strings.Fields(line)
		if args[2] != "move" {
			continue
		}
		n++
		for i, arg := range args {
			switch arg {
			case "public":
				args[i] = "fleet-old"
			case "edge":
				args[i] = "fleet-new"
			}
		}
		if !slices.Contains(args, "-A") {
			args = append(args, "-n", "fleet-b")
		}
		args = append(args, "--timeout", patience.String())
		if status, _, errOut := f.plugin(f.user, args[2:]...); status != plugin.ExitFine {
			f.t.Errorf("%s ended with %d: %s", line, status, errOut)
		}
	}
	if n == 0 {
		f.t.Error("there is no example")
	}
}

// changedTheClassAlone holds that the plugin has written nothing but spec.className.
func (f *fleet) changedTheClassAlone() {
	for _, s := range f.streams {
		f.get(s)
		i := slices.IndexFunc(s.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "kubectl-portcullis" })
		if i < 0 {
			f.t.Errorf("%s was not changed by the plugin", s.Name)
			continue
		}
		if got, want := s.ManagedFields[i].FieldsV1.GetRawString(), `{"f:spec":{"f:className":{}}}`; got != want {
			f.t.Errorf("the plugin has written %s of %s", got, s.Name)
		}
	}
}

// history starts a history of the doors of the streams, which are all open.
func (f *fleet) history() *history {
	return newHistory(f.t, f.Harness, func() moment {
		return &fleetDoors{fleet: f, entries: map[*edge]map[int32]bool{}, ports: map[*edge]map[int32]bool{}}
	}, &corev1.ConfigMapList{}, &corev1.ServiceList{})
}

// fleetDoors is what is open of both classes at one version.
type fleetDoors struct {
	*fleet
	entries, ports map[*edge]map[int32]bool
}

func (m *fleetDoors) apply(e happening) []types.NamespacedName {
	concerns := false
	for _, at := range []*edge{m.from, m.to} {
		key := client.ObjectKeyFromObject(e.stored)
		switch stored := e.stored.(type) {
		case *corev1.ConfigMap:
			if ref := at.class.Spec.TCPConfigMap; key == (types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
				concerns, m.entries[at] = true, map[int32]bool{}
				for i := range m.streams {
					m.entries[at][int32(fleetPort+i)] = !e.gone && stored.Data[fmt.Sprint(fleetPort+i)] == "fleet-a/web:80"
				}
			}
		case *corev1.Service:
			if key == client.ObjectKeyFromObject(at.proxy()) {
				concerns, m.ports[at] = true, map[int32]bool{}
				for _, p := range stored.Spec.Ports {
					m.ports[at][p.Port] = !e.gone
				}
			}
		}
	}
	if !concerns {
		return nil
	}
	return m.everybody()
}

func (m *fleetDoors) everybody() (all []types.NamespacedName) {
	for _, s := range m.streams {
		all = append(all, client.ObjectKeyFromObject(s))
	}
	return all
}

func (m *fleetDoors) check(key types.NamespacedName) error {
	var port int32
	if _, err := fmt.Sscanf(key.Name, "mover-%d", &port); err != nil {
		return err
	}
	port += fleetPort
	for _, at := range []*edge{m.from, m.to} {
		if m.entries[at][port] && m.ports[at][port] {
			return nil
		}
	}
	return fmt.Errorf("%s is open in neither class", key)
}

func (m *fleetDoors) around([]happening, int, types.NamespacedName) string { return "" }
