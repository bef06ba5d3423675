package loadbalancer

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// cluster is PoolFacts of what is written down here.
type cluster struct {
	namespaces map[string]labels.Set
	services   map[string]*corev1.Service
	claims     map[claim.Coordinate]*v1beta1.EdgeClaim

	// asked counts the questions that the cluster may fail to answer. When fails is set, it answers the first so many of them,
	// and then nothing, as kube.Facts does after an error.
	asked   int
	fails   bool
	answers int
}

var _ PoolFacts = &cluster{}

// answer is what is answered to a question.
func answer[T any](c *cluster, is T) T {
	c.asked++
	if c.fails && c.asked > c.answers {
		var none T
		return none
	}
	return is
}

// failAfterEach decides again, once for each question that was asked, with a cluster that fails to answer that one. What is
// decided is dropped then (kube.Decide), but a decision must come.
func (c *cluster) failAfterEach(decide func()) {
	questions := c.asked
	for c.fails, c.answers = true, 0; c.answers < questions; c.answers++ {
		c.asked = 0
		decide()
	}
	c.asked, c.fails = 0, false
}

func (c *cluster) NamespaceLabels(name string) labels.Set { return answer(c, c.namespaces[name]) }

func (c *cluster) Service(key types.NamespacedName) *corev1.Service {
	return answer(c, c.services[key.String()])
}

func (c *cluster) AddressClaims(in ...addresspool.Range) []*v1beta1.EdgeClaim {
	return answer(c, c.claimsWhere(func(at claim.Coordinate) bool {
		return slices.ContainsFunc(in, func(r addresspool.Range) bool { return at.IsAddress() && r.Contains(at.Address()) })
	}))
}

func (c *cluster) NodePortClaims() []*v1beta1.EdgeClaim {
	return answer(c, c.claimsWhere(claim.Coordinate.IsNode))
}

func (c *cluster) claimsWhere(wanted func(claim.Coordinate) bool) []*v1beta1.EdgeClaim {
	var all []*v1beta1.EdgeClaim
	for at, one := range c.claims {
		if wanted(at) {
			all = append(all, one)
		}
	}
	return all
}

// serviceHolds is a Service with labels "tier=<tier>", and its claims on points.
func (c *cluster) serviceHolds(name, tier string, points ...claim.Coordinate) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"tier": tier}}}
	if c.services == nil {
		c.services, c.claims = map[string]*corev1.Service{}, map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	c.services["shop/"+name] = svc
	maps.Copy(c.claims, claims(claim.ServiceHolder("shop", name), points...))
	return svc
}

// since is when all claims of the tests were made.
var since = time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC)

// claims are claims of one holder on some points.
func claims(by claim.Holder, points ...claim.Coordinate) map[claim.Coordinate]*v1beta1.EdgeClaim {
	all := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	for _, at := range points {
		c := claim.New(at, claim.Claimant{Holder: by, UID: "u", Generation: 1})
		c.CreationTimestamp = metav1.NewTime(since)
		all[at] = c
	}
	return all
}

// verdict is a problem as people read it.
type verdict struct{ Reason, Text string }

func verdicts(problems refusal.Problems) []verdict {
	var all []verdict
	for _, p := range problems {
		all = append(all, verdict{p.Reason, p.Err.Error()})
	}
	return all
}
