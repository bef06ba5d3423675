package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// movable is a cluster in which streams move. A stream is open behind its new class once it was read so many times.
type movable struct {
	*fake
	reads   int
	pending map[string]int
	// stuck are those that are never open again, and refused those that are not moved, with why.
	stuck   map[string]bool
	refused map[string]error
	// warnings are what is warned of, by name; those streams have no port in their new class.
	warnings map[string]string
	// before is called before a stream is moved.
	before func(s *v1beta1.StreamIngress)
	// moves are the calls of Move, and most is how many were under way at a time.
	moves []string
	most  int
}

// fleet is a cluster with streams.
func fleet(streams ...*v1beta1.StreamIngress) *movable {
	m := &movable{
		fake: &fake{objects: map[string][]runtime.Object{}}, reads: 1, pending: map[string]int{}, stuck: map[string]bool{},
		refused: map[string]error{},
	}
	for _, s := range streams {
		m.objects[streamsPlural] = append(m.objects[streamsPlural], s)
	}
	return m
}

// streamOf is one of the namespace team that is open behind a class.
func streamOf(class, name string) *v1beta1.StreamIngress {
	s := &v1beta1.StreamIngress{ObjectMeta: named("team", name)}
	s.UID, s.ResourceVersion, s.Generation = types.UID(name), "1", 1
	s.Spec.ClassName = class
	arrive(s)
	return s
}

// arrive has a stream be open where it wants.
func arrive(s *v1beta1.StreamIngress) {
	s.Status.ClassName, s.Status.Listen, s.Status.Previous = s.Spec.ClassName, 5432, nil
	says(s, v1beta1.ConditionAccepted, metav1.ConditionTrue, v1beta1.ReasonAccepted)
	says(s, v1beta1.ConditionProgrammed, metav1.ConditionTrue, v1beta1.ReasonProgrammed)
}

func says(s *v1beta1.StreamIngress, kind string, status metav1.ConditionStatus, reason string) {
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: "as it is", ObservedGeneration: s.Generation,
	})
}

// leave has a stream be on its way from a class.
func leave(s *v1beta1.StreamIngress, from string) {
	s.Status.ClassName, s.Status.Previous = s.Spec.ClassName, &v1beta1.PreviousDoor{ClassName: from, Protocol: v1beta1.TCP, Listen: 5432}
	says(s, v1beta1.ConditionAccepted, metav1.ConditionTrue, v1beta1.ReasonAccepted)
	says(s, v1beta1.ConditionProgrammed, metav1.ConditionFalse, v1beta1.ReasonNoAddress)
}

func (m *movable) find(key types.NamespacedName) *v1beta1.StreamIngress {
	for _, obj := range m.objects[streamsPlural] {
		if s := obj.(*v1beta1.StreamIngress); snapshot.Key(s) == key {
			return s
		}
	}
	return nil
}

func (m *movable) Stream(_ context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error) {
	s := m.find(key)
	if s == nil {
		return nil, missing(streamsPlural)
	}
	if left, is := m.pending[s.Name]; is && !m.stuck[s.Name] {
		m.pending[s.Name] = left - 1
		if left <= 1 {
			delete(m.pending, s.Name)
			arrive(s)
		}
	}
	return s.DeepCopy(), nil
}

func (m *movable) Move(
	_ context.Context, read *v1beta1.StreamIngress, class string, dryRun bool,
) (next *v1beta1.StreamIngress, warnings []string, err error) {
	if m.before != nil {
		m.before(read)
	}
	s := m.find(snapshot.Key(read))
	switch {
	case s == nil:
		return nil, nil, missing(streamsPlural)
	case s.ResourceVersion != read.ResourceVersion || s.UID != read.UID:
		return nil, nil, apierrors.NewConflict(schema.GroupResource{Resource: streamsPlural}, s.Name, errors.New("changed"))
	case m.refused[s.Name] != nil:
		return nil, nil, m.refused[s.Name]
	}
	if text := m.warnings[s.Name]; text != "" {
		warnings = []string{text}
	}
	call := s.Name + " to " + class
	if dryRun {
		m.moves = append(m.moves, call+" (dry run)")
		return s.DeepCopy(), warnings, nil
	}
	m.moves = append(m.moves, call)
	from, wasOpen := classOf(s), wasOpen(s)
	s.Spec.ClassName, s.Generation, s.ResourceVersion = class, s.Generation+1, s.ResourceVersion+"1"
	if wasOpen {
		leave(s, from)
		m.pending[s.Name] = m.reads
		m.most = max(m.most, len(m.pending))
	}
	if len(warnings) > 0 {
		delete(m.pending, s.Name)
		says(s, v1beta1.ConditionAccepted, metav1.ConditionFalse, v1beta1.ReasonPortConflict)
	}
	return s.DeepCopy(), warnings, nil
}

// held is the refusal of a port that somebody has.
func held(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: v1beta1.GroupName, Kind: "StreamIngress"}, name, field.ErrorList{
		{Type: field.ErrorTypeDuplicate, Field: "spec.listen", BadValue: "TCP/5432", Detail: "held by StreamIngress shop/db"},
	})
}

// moveIt runs the command.
func moveIt(t *testing.T, m *movable, args ...string) said {
	t.Helper()
	return run(t, m, append([]string{"kubectl-portcullis", "move", "--from", "public", "--to", "edge"}, args...)...)
}

// expect fails the test unless a run ended so, with these texts on standard output and standard error; texts that begin with "!" are not
// there.
func (s said) expect(t *testing.T, status int, texts ...string) {
	t.Helper()
	if s.status != status {
		t.Errorf("it ended with %d, want %d:\n%s%s", s.status, status, s.out, s.err)
	}
	for _, text := range texts {
		unwanted, isUnwanted := strings.CutPrefix(text, "!")
		if strings.Contains(s.out+s.err, unwanted) == isUnwanted {
			t.Errorf("want %q in\n%s%s", text, s.out, s.err)
		}
	}
}

func five() []*v1beta1.StreamIngress {
	return []*v1beta1.StreamIngress{
		streamOf("public", "c"), streamOf("public", "a"), streamOf("public", "e"), streamOf("public", "b"), streamOf("public", "d"),
		streamOf("other", "x"),
	}
}

func TestMove(t *testing.T) {
	m := fleet(five()...)
	m.reads = 2
	got := moveIt(t, m, "--batch", "2")
	got.expect(t, ExitFine, "5 moved from class public to class edge; have their manifests name class edge")
	want := ""
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		want += "streamingress.nginx-stream.jeffthecoder.xyz team/" + name + " moved, TCP/5432\n"
	}
	if diff := cmp.Diff(want, got.out); diff != "" {
		t.Error(diff)
	}
	if m.most != 2 {
		t.Errorf("%d were under way at a time", m.most)
	}
	if diff := cmp.Diff([]string{"a to edge", "b to edge", "c to edge", "d to edge", "e to edge"}, m.moves); diff != "" {
		t.Error(diff)
	}
	moveIt(t, m).expect(t, ExitFine, "no StreamIngress of class public is left to move in namespace team")
}

// TestMoveStops has one refused, and one that does not come: those before it are moved, those after it are not, and the next run goes on.
func TestMoveStops(t *testing.T) {
	m := fleet(five()...)
	m.refused["d"] = held("d")
	moveIt(t, m, "--batch", "2").expect(t, ExitFindings, "team/c moved, TCP/5432", "team/d was not moved: ", "held by StreamIngress shop/db",
		"stopped: 3 of 5 moved", "run the same command again", "!team/e", "!to have it back")
	if got := m.find(types.NamespacedName{Namespace: "team", Name: "d"}).Spec.ClassName; got != "public" {
		t.Errorf("d is of class %s", got)
	}

	m.refused, m.stuck["d"] = nil, true
	moveIt(t, m, "--batch", "1", "--timeout", "1ms").expect(t, ExitFindings, "team/d is not open in class edge after 1ms: Programmed is False (NoAddress): as it is",
		"stopped: 0 of 2 moved", "to have it back: kubectl portcullis move -n team --from edge --to public d", "!team/e")

	m.stuck = nil
	moveIt(t, m).expect(t, ExitFine, "team/d names class edge already: waiting", "team/d moved, TCP/5432", "team/e moved, TCP/5432")
	if diff := cmp.Diff([]string{"a to edge", "b to edge", "c to edge", "d to edge", "e to edge"}, m.moves); diff != "" {
		t.Error(diff)
	}
}

func TestMoveWhileOthersChange(t *testing.T) {
	m := fleet(five()...)
	m.before = func(s *v1beta1.StreamIngress) {
		stored := m.find(snapshot.Key(s))
		switch {
		case s.Name == "a" && s.Labels == nil:
			stored.Labels, stored.ResourceVersion = map[string]string{"a": "b"}, "2"
		case s.Name == "b":
			stored.Spec.ClassName, stored.ResourceVersion = "other", "2"
		case s.Name == "c":
			m.objects[streamsPlural] = slices.DeleteFunc(m.objects[streamsPlural], func(o runtime.Object) bool { return o == runtime.Object(stored) })
		case s.Name == "d":
			stored.UID, stored.ResourceVersion = "another", "2"
		}
	}
	moveIt(t, m).expect(t, ExitFindings, "team/a moved, TCP/5432", "team/b was changed by somebody else", "team/c is gone",
		"team/d was changed by somebody else", "team/e moved, TCP/5432", "1 are yet to move that came, or were changed, meanwhile",
		"stopped: 2 of 5 moved from")
	moveIt(t, m, "a", "b").expect(t, ExitUnread, `of class "other"`)

	m = fleet(five()...)
	m.before = func(s *v1beta1.StreamIngress) {
		if stored := m.find(snapshot.Key(s)); s.Name == "b" {
			stored.Spec.ClassName, stored.ResourceVersion = "other", "2"
		}
	}
	moveIt(t, m).expect(t, ExitFindings, "1 were changed by somebody else meanwhile", "stopped: 4 of 5 moved from")
}

// TestMoveAsItIsByThen waits for what is open when it is changed, and for nothing else, whatever was read before.
func TestMoveAsItIsByThen(t *testing.T) {
	a, b := streamOf("public", "a"), streamOf("public", "b")
	says(b, v1beta1.ConditionProgrammed, metav1.ConditionFalse, v1beta1.ReasonPending)
	m := fleet(a, b)
	m.before = func(s *v1beta1.StreamIngress) {
		switch stored := m.find(snapshot.Key(s)); {
		case stored.ResourceVersion != "1":
		case s.Name == "a":
			stored.ResourceVersion = "2"
			says(stored, v1beta1.ConditionProgrammed, metav1.ConditionFalse, v1beta1.ReasonPending)
		default:
			stored.ResourceVersion = "2"
			says(stored, v1beta1.ConditionProgrammed, metav1.ConditionTrue, v1beta1.ReasonProgrammed)
		}
	}
	moveIt(t, m).expect(t, ExitFine, "team/a moved, and was not open before", "team/b moved, TCP/5432", "2 moved")
}

// TestMoveWhatIsDeleted waits for nothing that is being deleted, be it on its way already or only then.
func TestMoveWhatIsDeleted(t *testing.T) {
	a, b := streamOf("public", "a"), streamOf("public", "b")
	a.Spec.ClassName, a.DeletionTimestamp = "edge", &metav1.Time{Time: time.Unix(1, 0)}
	leave(a, "public")
	m := fleet(a, b, streamOf("public", "c"))
	m.before = func(s *v1beta1.StreamIngress) {
		if s.Name == "c" {
			m.find(snapshot.Key(b)).DeletionTimestamp = a.DeletionTimestamp
		}
	}
	moveIt(t, m).expect(t, ExitFine, "team/a is being deleted, and is left", "team/b is being deleted, and is left", "team/c moved, TCP/5432", "1 moved")
}

// TestMoveToAClassThatWarns is told which stream has no port there, by a dry run and at once.
func TestMoveToAClassThatWarns(t *testing.T) {
	m := fleet(five()...)
	m.warnings = map[string]string{
		"b": `admitted, and not opened, as class "edge" only warns (enforcement: Warn): spec.listen: held`, "a": "there is no Service yet",
	}
	moveIt(t, m, "--dry-run=server").expect(t, ExitFindings, "team/a moved (server dry run)", "Warning: streamingress.nginx-stream.jeffthecoder.xyz team/b: admitted",
		"team/b would have no port in class edge", "1 of 5 would be refused", "!team/b moved")
	delete(m.warnings, "a")
	moveIt(t, m, "--batch", "3", "--timeout", "24h").expect(t, ExitFindings, "team/c moved, TCP/5432",
		"team/b is not open in class edge: Accepted is False (PortConflict)", "stopped: 2 of 5 moved", "--from edge --to public b", "!team/d")
}

// TestMoveWithoutAClass tells of a stream that has none yet.
func TestMoveWithoutAClass(t *testing.T) {
	for args, want := range map[string]string{"": "1 moved", "--dry-run": "team/a moved (dry run)", "--dry-run=server": "(server dry run)", "new": "left to move"} {
		unnamed := streamOf("", "new")
		unnamed.Status = v1beta1.StreamIngressStatus{}
		moveIt(t, fleet(streamOf("public", "a"), unnamed), strings.Fields(args)...).expect(t, ExitFindings, "team/new has no class yet", want)
	}
}

// TestMoveTriesAgain has the API server be busy for a while.
func TestMoveTriesAgain(t *testing.T) {
	m := fleet(five()...)
	m.refused["b"] = apierrors.NewTooManyRequestsError("try again")
	asked := 0
	m.before = func(s *v1beta1.StreamIngress) {
		asked++
		if asked > 3 {
			delete(m.refused, "b")
		}
	}
	moveIt(t, m, "--timeout", "24h").expect(t, ExitFine, "5 moved")
}

// TestMoveWhatIsNotOpen does not wait for what was not open before, and moves nothing that is being deleted.
func TestMoveWhatIsNotOpen(t *testing.T) {
	closed, deleted, unnamed := streamOf("public", "a"), streamOf("public", "b"), streamOf("public", "c")
	says(closed, v1beta1.ConditionProgrammed, metav1.ConditionFalse, v1beta1.ReasonNotAccepted)
	deleted.DeletionTimestamp, unnamed.Spec.ClassName = &metav1.Time{Time: time.Unix(1, 0)}, ""
	m := fleet(closed, deleted, unnamed)
	moveIt(t, m).expect(t, ExitFine, "team/a moved, and was not open before", "team/b is being deleted", "team/c moved, TCP/5432", "2 moved")
}

func TestMoveDryRun(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		texts  []string
		moves  []string
	}{
		"--dry-run":        {ExitFine, []string{"team/a moved (dry run)", "team/c moved (dry run)"}, nil},
		"--dry-run=client": {ExitFine, []string{"team/a moved (dry run)", "team/c moved (dry run)"}, nil},
		"--dry-run=server": {ExitFindings,
			[]string{"team/a moved (server dry run)", "team/b was not moved: ", "held by StreamIngress shop/db", "1 of 5 would be refused"},
			[]string{"a to edge (dry run)", "c to edge (dry run)", "d to edge (dry run)", "e to edge (dry run)"}},
	} {
		m := fleet(five()...)
		m.refused["b"] = held("b")
		moveIt(t, m, args).expect(t, want.status, want.texts...)
		if diff := cmp.Diff(want.moves, m.moves); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}

// TestMoveIsInterrupted ends the command after its first stream: what it has begun is told.
func TestMoveIsInterrupted(t *testing.T) {
	m := fleet(five()...)
	ctx, interrupt := context.WithCancel(t.Context())
	m.before = func(*v1beta1.StreamIngress) { interrupt() }
	runUntil(ctx, t, m, "kubectl-portcullis", "move", "--from", "public", "--to", "edge").
		expect(t, ExitFindings, "interrupted", "stopped: ", " of 5 moved", "run the same command again")
	if diff := cmp.Diff([]string{"a to edge"}, m.moves); diff != "" {
		t.Error(diff)
	}
	moveIt(t, m).expect(t, ExitFine, "team/e moved")

	ctx, interrupt = context.WithCancel(t.Context())
	m = fleet(five()...)
	m.before = func(*v1beta1.StreamIngress) { interrupt() }
	runUntil(ctx, t, m, "kubectl-portcullis", "move", "--from", "public", "--to", "edge", "--dry-run=server").expect(t, ExitFindings, "interrupted")
}

func TestMoveCannotLook(t *testing.T) {
	unavailable := fleet(five()...)
	unavailable.refused["a"] = apierrors.NewServiceUnavailable("portcullis could not decide, try again")
	moveIt(t, unavailable, "--timeout", "1ms").expect(t, ExitUnread, "moving streamingress.nginx-stream.jeffthecoder.xyz team/a: portcullis could not decide", "stopped: 0 of 5")
	forbidden := fleet(five()...)
	forbidden.refused["a"] = forbid(streamsPlural)
	moveIt(t, forbidden, "--dry-run=server").expect(t, ExitUnread, "moving streamingress.nginx-stream.jeffthecoder.xyz team/a: ", "!would be refused")
	closed := fleet(five()...)
	closed.refuses = func(plural, _ string) error { return forbid(plural) }
	moveIt(t, closed).expect(t, ExitUnread, "reading streamingresses: ", "forbidden")
	for args, want := range map[string]string{
		"--from a --to a":                 "--from and --to are both a",
		"--from a":                        `required flag(s) "to" not set`,
		"--from a --to b --batch 0":       "--batch is 0: it must be 1 or more",
		"--from a --to b --timeout 0s":    "--timeout is 0s: it must be more than 0",
		"--from a --to b --dry-run=maybe": `--dry-run is "maybe": want one of none, client, server`,
		"--from a --to b -A x":            "names can't be given beside --all-namespaces",
		"--from public --to edge nobody":  `"nobody" not found`,
		"--from public --to edge x":       `StreamIngress team/x is of class "other", and not of "public"`,
		"--from public --to edge -l =":    "--selector: ",
	} {
		run(t, fleet(five()...), append([]string{"kubectl-portcullis", "move"}, strings.Fields(args)...)...).expect(t, ExitUnread, want)
	}
}

func TestMoveSome(t *testing.T) {
	for args, want := range map[string][]string{
		"c a a": {"a to edge", "c to edge"}, "-l tier=1": {"b to edge"}, "-n none": nil, "-n none -A -l tier=1": {"b to edge"},
	} {
		m := fleet(five()...)
		m.find(types.NamespacedName{Namespace: "team", Name: "b"}).Labels = map[string]string{"tier": "1"}
		moveIt(t, m, strings.Fields(args)...).expect(t, ExitFine)
		if diff := cmp.Diff(want, m.moves); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}

func TestPlanMove(t *testing.T) {
	change := func(name string, changes ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
		s := streamOf("public", name)
		for _, c := range changes {
			c(s)
		}
		return s
	}
	toEdge := func(s *v1beta1.StreamIngress) { s.Spec.ClassName, s.Generation = "edge", 2 }
	plan := planMove([]*v1beta1.StreamIngress{
		change("unseen", toEdge),
		change("on-its-way", toEdge, func(s *v1beta1.StreamIngress) { leave(s, "public") }),
		change("from-elsewhere", toEdge, func(s *v1beta1.StreamIngress) { leave(s, "other") }),
		change("arrived", toEdge, func(s *v1beta1.StreamIngress) {
			leave(s, "public")
			p := s.Status.Previous
			arrive(s)
			s.Status.Previous = p
		}),
		change("never-open", toEdge, func(s *v1beta1.StreamIngress) {
			says(s, v1beta1.ConditionProgrammed, metav1.ConditionFalse, v1beta1.ReasonNotAccepted)
		}),
		change("left"), change("another", func(s *v1beta1.StreamIngress) { s.Spec.ClassName = "other" }),
		change("serves", func(s *v1beta1.StreamIngress) { s.Spec.ClassName = "" }),
		change("new", func(s *v1beta1.StreamIngress) { s.Spec.ClassName = ""; s.Status = v1beta1.StreamIngressStatus{} }),
		change("deleted", func(s *v1beta1.StreamIngress) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }),
	}, "public", "edge")
	names := func(streams []*v1beta1.StreamIngress) string {
		var all []string
		for _, s := range streams {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	got := fmt.Sprintf("under way: %s; left: %s; deleted: %s; unnamed: %s",
		names(plan.underWay), names(plan.left), names(plan.deleted), names(plan.unnamed))
	if want := "under way: on-its-way unseen; left: left serves; deleted: deleted; unnamed: new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
