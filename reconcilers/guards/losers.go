package guards

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// losers are those who were told that they stand where somebody else has the point, so that each is told once. It may be lost: then they
// are told again.
type losers struct {
	mu sync.Mutex
	// kinds are those of the losers, all of them.
	kinds []guard.Kind
	// on are the losers in one place, a Gateway for example, with what they were told.
	on map[types.NamespacedName]map[types.UID]told
}

// losses are the losers of all that is guarded.
type losses []*losers

// of adds losers of some kinds.
func (l *losses) of(kinds ...guard.Kind) *losers {
	*l = append(*l, newLosers(kinds...))
	return (*l)[len(*l)-1]
}

type told struct {
	// text is what they are told, and key what that is about: ages and places in a list change no more than the words.
	text, key string
	// points is how many of the object's have been lost.
	points int
	kind   guard.Kind
}

func newLosers(kinds ...guard.Kind) *losers {
	return &losers{kinds: kinds, on: map[types.NamespacedName]map[types.UID]told{}}
}

// are says who has lost in a place, and returns those who have yet to be told so.
func (l *losers) are(place types.NamespacedName, now map[types.UID]told) (fresh []types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, t := range now {
		if l.on[place][uid].key != t.key {
			fresh = append(fresh, uid)
		}
	}
	if len(now) == 0 {
		delete(l.on, place)
	} else {
		l.on[place] = now
	}
	slices.Sort(fresh)
	return fresh
}

// places are where somebody has lost.
func (l *losers) places() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.on))
}

// any says whether anybody has lost.
func (l *losers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.on) > 0
}

// count counts the points that have been lost, by the kind of the objects.
func (l *losers) count() map[guard.Kind]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[guard.Kind]int{}
	for _, kind := range l.kinds {
		counts[kind] = 0
	}
	for _, on := range l.on {
		for _, t := range on {
			counts[t.kind] += t.points
		}
	}
	return counts
}

// tell tells those who have lost on a Gateway, by an event about their object.
func (r *gatewayReconciler) tell(gateway types.NamespacedName, lost []guard.Loss) {
	now, who := map[types.UID]told{}, map[types.UID]guard.Opener{}
	for _, loss := range lost {
		t := now[loss.Opener.UID]
		if t.points == 0 {
			t.kind = loss.Opener.Kind
		} else {
			t.text += "; "
		}
		t.text += loss.String()
		t.key += loss.Key() + "\n"
		t.points++
		now[loss.Opener.UID], who[loss.Opener.UID] = t, loss.Opener
	}
	for _, uid := range r.losers.are(gateway, now) {
		text := now[uid].text + "; the Gateway serves one of the two, by age and not by who had it: move one of them to a free port"
		report.Emit(r.Events, objectOf(who[uid]), nil, corev1.EventTypeWarning, v1beta1.ReasonPortConflict, "Guard", text)
	}
}

// objectOf names the object of an opener.
func objectOf(o guard.Opener) client.Object {
	meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	of := metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: string(o.Kind)}
	if o.Kind == guard.Gateway {
		return &gatewayv1.Gateway{TypeMeta: of, ObjectMeta: meta}
	}
	return &gatewayv1.ListenerSet{TypeMeta: of, ObjectMeta: meta}
}

var (
	conflictsDesc = prometheus.NewDesc("portcullis_guard_conflicts",
		"Points at which somebody stands though somebody else has them, by the kind of the object: what admission would have refused, and "+
			"came in while it was away, by a change of something else, or before it was guarded. From the replica that leads.",
		[]string{"kind"}, nil)

	registerOnce sync.Once
)

// registerMetrics registers the metrics of the guard.
func registerMetrics(l *losses) {
	registerOnce.Do(func() { metrics.Registry.MustRegister(conflictCounts{l}) })
}

// conflictCounts counts what has been lost.
type conflictCounts struct{ losses *losses }

// Describe implements prometheus.Collector.
func (conflictCounts) Describe(descs chan<- *prometheus.Desc) { descs <- conflictsDesc }

// Collect implements prometheus.Collector.
func (c conflictCounts) Collect(out chan<- prometheus.Metric) {
	counts := map[guard.Kind]int{} // a TLSRoute may have lost a listener, and a host name
	for _, losers := range *c.losses {
		for kind, n := range losers.count() {
			counts[kind] += n
		}
	}
	for kind, n := range counts {
		out <- prometheus.MustNewConstMetric(conflictsDesc, prometheus.GaugeValue, float64(n), string(kind))
	}
}
