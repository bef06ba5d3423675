package guards

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
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
	// key is what they are told of: ages and places in a list change no more than the words.
	key string
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

// requests ask for a look at all places where somebody has lost.
func (l *losers) requests() (requests []reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for place := range l.on {
		requests = append(requests, reconcile.Request{NamespacedName: place})
	}
	return requests
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

// loss is what an object has lost in a place.
type loss struct {
	of   claim.Claimant
	kind guard.Kind
	// text is what the object is told, for what reason, and key the same without what changes by itself.
	reason, text, key string
	// given says that the object has handed it over.
	given bool
}

// allTold is for how many losses an event is about where it is about all of them.
const allTold = math.MaxInt

// tell tells those who have lost in a place, by an event about their object, and by one about what they have handed over themselves. Either
// is about so many of the losses at most, and ends with what the object can do.
func (l *losers) tell(to events.EventRecorder, place types.NamespacedName, lost []loss, most int, wayOut, handedOn string) {
	now, losses := map[types.UID]told{}, map[types.UID][]loss{}
	for _, one := range lost {
		uid := one.of.UID
		now[uid] = told{key: now[uid].key + one.key + "\n", points: now[uid].points + 1, kind: one.kind}
		losses[uid] = append(losses[uid], one)
	}
	for _, uid := range l.are(place, now) {
		of := losses[uid][0].of
		about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, UID: uid}}
		about.SetGroupVersionKind(schema.GroupVersionKind{Group: of.Group, Version: "v1", Kind: of.Kind})
		var taken, given []string
		for _, one := range losses[uid] {
			if one.given {
				given = append(given, one.text)
			} else {
				taken = append(taken, one.text)
			}
		}
		if len(taken) > 0 {
			report.Emit(to, about, nil, corev1.EventTypeWarning, losses[uid][0].reason, "Guard",
				strings.Join(append(taken[:min(len(taken), most)], wayOut), "; "))
		}
		if len(given) > 0 {
			report.Emit(to, about, nil, corev1.EventTypeNormal, v1beta1.ReasonHandedOver, "Guard",
				strings.Join(append(given[:min(len(given), most)], handedOn), "; "))
		}
	}
}

// tell tells those who have lost on a Gateway.
func (r *gatewayReconciler) tell(gateway types.NamespacedName, lost []guard.Loss) {
	losses := make([]loss, 0, len(lost))
	for _, l := range lost {
		losses = append(losses, loss{
			of: l.Opener.Claimant, kind: l.Opener.Kind, reason: v1beta1.ReasonPortConflict, text: l.String(), key: l.Key(),
		})
	}
	r.losers.tell(r.Events, gateway, losses, allTold,
		"the Gateway serves one of the two, by age and not by who had it: move one of them to a free port", "")
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
