package exposure

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Limit refuses a Service more pairs of host and path than one gets. What it has it keeps.
func Limit(facts Facts, svc *corev1.Service, e Exposure) refusal.Problems {
	limit, points := facts.MaxHTTPPoints(), e.Points()
	if limit == 0 || len(points) <= limit {
		return nil
	}
	held := facts.Held(claim.ServiceHolder(svc.Namespace, svc.Name))
	paths := refusal.Share{Limit: limit, Wanted: len(points)}
	own := sets.New[claim.Coordinate]()
	for _, at := range held {
		if at.IsHTTP() {
			own.Insert(at.ServedBy("")) // by a claim that names its class or not, or by both
		}
	}
	paths.Own = own.Len()
	for _, at := range points {
		if !own.Has(at.ServedBy("")) {
			paths.Added++
		}
	}
	if paths.All = paths.Own; !paths.Exceeded() {
		return nil
	}
	if slices.Contains(facts.Fronts(), types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}) {
		return nil
	}
	return refusal.One(v1beta1.ReasonTooManyPoints, field.Invalid(AnnotationPath(), e.String(), fmt.Sprintf(
		"%d host(s) with %d path(s) each are %d pairs, and %d are the most for one Service; "+
			"spread them over several Services, for example host=shop.example.com, path=/api on each",
		len(e.Hosts), len(e.Paths), len(points), limit)))
}
