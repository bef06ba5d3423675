package stream

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The files in testdata are what a real API server has stored, with data, ports and managed fields left in. In all of
// them 9000, 80 and 443 were made by others first; what Portcullis has applied then, and what others did after that, is
// in the name of the file.

func configMapFrom(t testing.TB, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	read(t, "configmap-"+name, cm)
	return cm
}

func serviceFrom(t testing.TB, name string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{}
	read(t, "service-"+name, svc)
	return svc
}

func read(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEntries(t *testing.T) {
	manual := map[int32]string{9000: "default/manual:80"}
	for file, tc := range map[string]struct {
		ours    map[int32]bool
		foreign map[int32]string
		leading map[string][]int32
	}{
		"foreign": {foreign: manual},
		"beside": {ours: map[int32]bool{53: true, 5432: true}, foreign: manual,
			leading: map[string][]int32{"dns/main": {53}, "shop/postgres": {5432}}},
		// An edit takes a key away from us, and a key that is deleted is nobody's.
		"edited": {foreign: map[int32]string{5432: "shop/elsewhere:1", 7000: "a/b:1", 9000: "default/manual:80"}},
		// What two have applied is ours, and theirs as well.
		"both":    {ours: map[int32]bool{5432: true}, foreign: map[int32]string{5432: "shop/postgres:5432", 9000: "default/manual:80"}},
		"adopted": {ours: map[int32]bool{9000: true}, foreign: manual},
		// Only what was applied is ours, not what was written by other means under our name.
		"update": {foreign: map[int32]string{6000: "x/y:1", 9000: "default/manual:80"}},
	} {
		t.Run(file, func(t *testing.T) {
			cm := configMapFrom(t, file)
			got, err := Entries(cm)
			if err != nil {
				t.Fatal(err)
			}
			want := Current{Data: cm.Data, Ours: tc.ours, Foreign: tc.foreign, Returned: map[int32]bool{}, Leading: tc.leading, Binary: 5}
			if want.Leading == nil {
				want.Leading = map[string][]int32{}
			}
			if want.Ours == nil {
				want.Ours = map[int32]bool{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	const tcp53, udp53, tcp5432 = "TCP/53", "UDP/53", "TCP/5432"
	for file, tc := range map[string]struct{ ours, foreign, shared []string }{
		"foreign": {foreign: []string{"TCP/80", "TCP/443"}},
		"beside":  {ours: []string{tcp53, udp53, tcp5432}, foreign: []string{"TCP/80", "TCP/443"}},
		// A client-side apply patches by number and takes both ports of a pair.
		"dropped": {foreign: []string{"TCP/80", "TCP/443"}},
		// Editing a field of one of our ports does not make it theirs.
		"edited":   {ours: []string{tcp53, udp53}, foreign: []string{"TCP/80", "TCP/443"}},
		"both":     {ours: []string{tcp5432}, foreign: []string{tcp53, "TCP/80", "TCP/443"}, shared: []string{tcp53}},
		"adopted":  {foreign: []string{"TCP/80", "TCP/443"}, shared: []string{"TCP/80"}},
		"replaced": {ours: []string{tcp53}, foreign: []string{"TCP/80", "TCP/443"}},
		// Without managed fields nothing is known to be ours, so nothing is taken away.
		"reset":  {foreign: []string{tcp53, "TCP/80", "TCP/443"}},
		"status": {ours: []string{tcp53}, foreign: []string{"TCP/80", "TCP/443"}},
	} {
		t.Run(file, func(t *testing.T) {
			front, err := Ports(serviceFrom(t, file))
			if err != nil {
				t.Fatal(err)
			}
			shared := map[PortKey]corev1.ServicePort{}
			for key, is := range front.Shared {
				if is {
					shared[key] = corev1.ServicePort{}
				}
			}
			for what, pair := range map[string][2][]string{
				"ours": {tc.ours, names(front.Ours)}, "foreign": {tc.foreign, names(front.Foreign)}, "shared": {tc.shared, names(shared)},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

func names(ports map[PortKey]corev1.ServicePort) []string {
	var keys []PortKey
	for key := range ports {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, ComparePorts)
	var texts []string
	for _, key := range keys {
		texts = append(texts, key.String())
	}
	return texts
}

// TestEveryFileIsRead notices a file in testdata that no table names.
func TestEveryFileIsRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if kind, rest, _ := strings.Cut(name, "-"); kind == "configmap" {
			configMapFrom(t, rest)
		} else {
			serviceFrom(t, rest)
		}
	}
}

func TestManagedFieldsThatCannotBeRead(t *testing.T) {
	fields := []metav1.ManagedFieldsEntry{{Manager: "helm", FieldsV1: metav1.NewFieldsV1(`{"f:data":`)}}
	_, err := Entries(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}})
	if err == nil || !strings.HasPrefix(err.Error(), `managed fields of "helm" can't be read: `) {
		t.Errorf("Entries: %v", err)
	}
	_, err = Ports(&corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}})
	if err == nil || !strings.HasPrefix(err.Error(), `managed fields of "helm" can't be read: `) {
		t.Errorf("Ports: %v", err)
	}
}

func TestKeysThatAreNoPorts(t *testing.T) {
	cm := &corev1.ConfigMap{Data: map[string]string{"080": "a/b:1", "readme": "x", "65536": "a/b:1", "81": "not an entry"}}
	got, err := Entries(cm)
	want := Current{
		Data: cm.Data, Ours: map[int32]bool{}, Foreign: map[int32]string{81: "not an entry"}, Returned: map[int32]bool{},
		Leading: map[string][]int32{},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func BenchmarkEntries(b *testing.B) {
	cm, fields := &corev1.ConfigMap{Data: map[string]string{}}, []string{}
	for port := int32(1); port <= 10_000; port++ {
		cm.Data[Key(port)] = "shop/postgres:5432"
		fields = append(fields, `"f:`+Key(port)+`":{}`)
	}
	slices.Sort(fields)
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{` + strings.Join(fields, ",") + `}}`),
	}}
	for b.Loop() {
		if s, err := Entries(cm); err != nil || len(s.Ours) != 10_000 {
			b.Fatal(len(s.Ours), err)
		}
	}
}

// key is a port in short.
func key(protocol v1beta1.Protocol, port int32) PortKey {
	return PortKey{Protocol: protocol, Port: port}
}

// TestAppliedAlone tells a ConfigMap that only Portcullis has written from one that somebody else has a part in.
func TestAppliedAlone(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation}
	}
	ours := entry(FieldManager, metav1.ManagedFieldsOperationApply)
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"nobody":                  {nil, false},
		"Portcullis":              {[]metav1.ManagedFieldsEntry{ours}, true},
		"Portcullis and others":   {[]metav1.ManagedFieldsEntry{ours, entry("kubectl", metav1.ManagedFieldsOperationApply)}, false},
		"somebody under its name": {[]metav1.ManagedFieldsEntry{entry(FieldManager, metav1.ManagedFieldsOperationUpdate)}, false},
		"what it gave back":       {[]metav1.ManagedFieldsEntry{ours, entry(ReturnManager, metav1.ManagedFieldsOperationApply)}, false},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
		if got := AppliedAlone(cm); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
