package integration

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// automatic is a class that assigns ports, and loses its ledger and the status of its streams.
type automatic struct {
	*edge
	streams []*v1beta1.StreamIngress
	// entries are those of each ConfigMap before that, and open are these and the ports of the Service, by the object.
	entries map[v1beta1.Protocol]map[string]string
	open    map[types.NamespacedName]map[string]string
}

// assigning starts a Portcullis with a class that assigns ports to streams of both protocols and three namespaces. Some say the
// same, in one namespace and in several, and some name a port of the range.
func assigning(t *testing.T) *automatic {
	t.Helper()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, Flags: append([]string{"--claim-grace=1h"}, shortLease...)}))
	a := &automatic{
		edge:    w.newEdge("automatic", autoAssign(20000, 20099), upstreams(v1beta1.UpstreamAll)),
		entries: map[v1beta1.Protocol]map[string]string{}, open: map[types.NamespacedName]map[string]string{},
	}
	w.create(namespace("auto-a"), namespace("auto-b"), namespace("auto-c"))
	for i := range 36 {
		key := fmt.Sprintf("auto-%c/s%d", 'a'+i%3, i)
		s := sti(key, of("automatic"), auto([]v1beta1.Protocol{TCP, UDP}[i%2]), to(fmt.Sprintf("web-%d", i), 80))
		switch i % 9 {
		case 0, 1:
			to("common", 80)(s)
		case 2, 3, 4, 5:
			to("auto-b/shared", 80)(s)
		case 6:
			if i%2 == 0 {
				proxyProtocol(true, i%4 == 0)(s)
			}
		}
		a.streams = append(a.streams, s)
	}
	a.streams = append(a.streams, sti("auto-a/named", of("automatic"), tcp(20050), to("auto-b/shared", 80)),
		sti("auto-a/named-udp", of("automatic"), udp(20051)))
	for _, s := range a.streams {
		w.create(s)
	}
	w.programmed(a.streams...)
	for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
		cm := a.configMap(protocol)
		w.get(cm)
		a.entries[protocol], a.open[client.ObjectKeyFromObject(cm)] = cm.Data, opens(cm)
	}
	proxy := a.proxy()
	w.eventually("all ports to be open", func() error {
		w.get(proxy)
		return is(len(proxy.Spec.Ports), 2+len(a.streams))
	})
	a.open[client.ObjectKeyFromObject(proxy)] = opens(proxy)
	return a
}

// opens is what a ConfigMap or a Service has, and where it leads.
func opens(obj client.Object) map[string]string {
	if cm, is := obj.(*corev1.ConfigMap); is {
		return cm.Data
	}
	open := map[string]string{}
	for _, p := range obj.(*corev1.Service).Spec.Ports {
		open[fmt.Sprintf("%s/%d", p.Protocol, p.Port)] = p.TargetPort.String()
	}
	return open
}

func (a *automatic) configMap(protocol v1beta1.Protocol) *corev1.ConfigMap {
	ref := a.class.ConfigMap(protocol)
	return configMap(ref.Namespace+"/"+ref.Name, nil)
}

// anew makes manifests of the streams, in no order.
func (a *automatic) anew() {
	for i, s := range a.streams {
		a.streams[i] = &v1beta1.StreamIngress{Spec: s.Spec}
		a.streams[i].Namespace, a.streams[i].Name = s.Namespace, s.Name
	}
	rand.Shuffle(len(a.streams), func(i, j int) { a.streams[i], a.streams[j] = a.streams[j], a.streams[i] })
}

// lose ends all replicas, takes all claims, and has all streams made anew in no order, of more than one age.
func (a *automatic) lose() {
	a.t.Helper()
	for _, r := range a.Replicas {
		must(a.fixture, r.Terminate())
	}
	must(a.fixture, a.Client.DeleteAllOf(a.t.Context(), &v1beta1.EdgeClaim{}))
	for _, s := range a.streams {
		a.delete(s)
	}
	a.anew()
	// A wider range has them begin to look for a free port elsewhere.
	edit(a.fixture, a.class, autoAssign(20000, 20199))
	for i, s := range a.streams {
		a.create(s)
		if i%12 == 11 {
			time.Sleep(time.Second) // so that they differ in age
		}
	}
}

// expected are the ports that the streams are to have, by their namespace/name.
func (a *automatic) expected() map[string]int32 {
	want := map[string]int32{}
	byAge := slices.SortedFunc(slices.Values(a.streams), func(x, y *v1beta1.StreamIngress) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	for protocol, entries := range a.entries {
		left := map[string][]int32{}
		for port := range int32(1 << 16) {
			if entry := entries[stream.Key(port)]; entry != "" && port != 20050 && port != 20051 {
				left[entry] = append(left[entry], port)
			}
		}
		for _, s := range byAge {
			key := s.Namespace + "/" + s.Name
			entry, _ := stream.EntryFor(s, nil, "")
			switch ports := left[entry.String()]; {
			case s.ProtocolOrDefault() != protocol:
			case s.Spec.Listen != nil:
				want[key] = *s.Spec.Listen
			case len(ports) == 0:
				a.t.Errorf("no %s entry is left for %s", protocol, key)
			default:
				want[key], left[entry.String()] = ports[0], ports[1:]
			}
		}
	}
	return want
}

// TestAutomaticPortsOutliveTheLedger takes the ledger and the status of all streams away while no replica runs. When they run again,
// each stream that names no port has that of an entry that says what it says, of several the oldest the lowest; none of these is ever
// missing, and who was created meanwhile, or comes as a replica starts, has none of them.
func TestAutomaticPortsOutliveTheLedger(t *testing.T) {
	t.Parallel()
	a := assigning(t)
	guard := a.unguard()
	a.lose()
	want := a.expected()
	late := []*v1beta1.StreamIngress{
		sti("auto-b/0-late", of("automatic"), auto(TCP), to("shared", 80)), sti("auto-a/0-late", of("automatic"), auto(UDP), to("common", 80)),
		sti("auto-c/0-other", of("automatic"), auto(TCP)),
	}
	history := a.history()
	a.create(late[2])
	guard()
	_, err := a.StartReplica(t.Context())
	must(a.fixture, err)
	t.Log("who comes when the replica has just started gets no port of those that were there")
	a.create(late[0], late[1])
	_, err = a.StartReplica(t.Context())
	must(a.fixture, err)

	a.programmed(a.streams...)
	a.programmed(late...)
	for _, s := range a.streams {
		if key := s.Namespace + "/" + s.Name; s.Status.Listen != want[key] {
			t.Errorf("%s, of %v, has %s/%d, want %d", key, s.CreationTimestamp, s.ProtocolOrDefault(), s.Status.Listen, want[key])
			continue
		}
		entry := a.entries[s.ProtocolOrDefault()][stream.Key(s.Status.Listen)]
		a.leads(s.ProtocolOrDefault(), s.Status.Listen, entry)
	}
	for _, s := range late {
		if entry := a.entries[s.ProtocolOrDefault()][stream.Key(s.Status.Listen)]; entry != "" {
			t.Errorf("%s/%s came late and has %d, which led to %s", s.Namespace, s.Name, s.Status.Listen, entry)
		}
	}
	history.mustHold(a.fixture)
}

// TestAutomaticPortsOutliveTheKinds takes the kinds away, and installs them again. Streams that are created anew, one after another and
// not all of them, get the ports of entries that say what they say, each the one that it would get without these, if it is one of
// them; and what nobody has asked for yet stays open.
func TestAutomaticPortsOutliveTheKinds(t *testing.T) {
	t.Parallel()
	a := assigning(t)
	for _, r := range a.Replicas {
		must(a.fixture, r.Terminate())
	}
	args := []string{"delete", "crd", "--timeout=" + patience.String()}
	for _, kind := range kinds {
		args = append(args, definition(kind))
	}
	a.mustKubectl("", args...)
	history := a.history()
	time.Sleep(time.Second) // so that the kinds are younger than what was written
	objects, err := controlplane.Render(t.Context(), "config/crd")
	must(a.fixture, err)
	must(a.fixture, controlplane.Apply(t.Context(), a.Config(), "install", objects...))
	_, err = a.StartReplica(t.Context())
	must(a.fixture, err)

	a.class = streamClass(a.class.Name, a.namespace, autoAssign(20000, 20199), upstreams(v1beta1.UpstreamAll))
	a.eventually("the class to be created", func() error { return client.IgnoreAlreadyExists(a.try(a.class)) })
	a.classHas(a.class, v1beta1.ConditionAccepted, "True Accepted")
	a.anew()
	// Those that name a port come first: it is anybody's before.
	slices.SortStableFunc(a.streams, func(x, y *v1beta1.StreamIngress) int {
		return -cmp.Compare(ptr.Deref(x.Spec.Listen, 0), ptr.Deref(y.Spec.Listen, 0))
	})
	a.streams = a.streams[:30]
	left := map[string][]int32{}
	for protocol, entries := range a.entries {
		for port := range int32(1 << 16) {
			if entry := entries[stream.Key(port)]; entry != "" {
				left[string(protocol)+entry] = append(left[string(protocol)+entry], port)
			}
		}
	}
	for _, s := range a.streams {
		natural := stream.PickPort(a.free(s.ProtocolOrDefault()), s.Namespace, s.Name)
		a.create(s)
		a.programmed(s)
		entry, _ := stream.EntryFor(s, nil, "")
		of := string(s.ProtocolOrDefault()) + entry.String()
		i := slices.Index(left[of], s.Status.Listen)
		if i < 0 || s.Spec.Listen == nil && i != max(slices.Index(left[of], natural), 0) {
			t.Errorf("%s/%s has %d, and of %s %v were left", s.Namespace, s.Name, s.Status.Listen, of, left[of])
			continue
		}
		left[of] = slices.Delete(left[of], i, i+1)
	}
	history.mustHold(a.fixture)
}

// history starts a history of what is open.
func (a *automatic) history() *history {
	a.t.Helper()
	return newHistory(a.t, a.Harness, func() moment {
		return &openMoment{automatic: a, now: map[types.NamespacedName]map[string]string{}}
	}, &corev1.ConfigMapList{}, &corev1.ServiceList{})
}

// openMoment is what is open at one version.
type openMoment struct {
	*automatic
	now map[types.NamespacedName]map[string]string
}

func (m *openMoment) apply(e happening) []types.NamespacedName {
	key := client.ObjectKeyFromObject(e.stored)
	if m.now[key] = opens(e.stored); e.gone {
		delete(m.now, key)
	}
	return []types.NamespacedName{key}
}

func (m *openMoment) everybody() []types.NamespacedName { return slices.Collect(maps.Keys(m.open)) }

// check says what is not as it was.
func (m *openMoment) check(key types.NamespacedName) error {
	for port, was := range m.open[key] {
		if is := m.now[key][port]; is != was {
			return fmt.Errorf("%s of %s led to %q, and leads to %q", port, key, was, is)
		}
	}
	return nil
}

func (m *openMoment) around([]happening, int, types.NamespacedName) string { return "" }
