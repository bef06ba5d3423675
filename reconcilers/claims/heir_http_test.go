package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestHeirAsksForPaths looks whether who was promised a path, as it is stored, asks for it: by a request that can be read, for that path, of
// that class. That it serves it, or would keep it if it had it, is not enough.
func TestHeirAsksForPaths(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/").ServedBy("public")
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "heir", UID: "h", ResourceVersion: "7", Generation: 7}
	service := func(asks string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: *meta.DeepCopy()}
		if asks != "" {
			svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: asks}
		}
		return svc
	}
	ingress := func(class, on string) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: *meta.DeepCopy(), Spec: networkingv1.IngressSpec{
			IngressClassName: &class, Rules: []networkingv1.IngressRule{{Host: on}},
		}}
	}
	goes := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: accesstest.Noon}, Finalizers: []string{"a/b"}}
	goingService, goingIngress := service("class=public, host="+host), ingress("public", host)
	goingService.DeletionTimestamp, goingService.Finalizers = goes.DeletionTimestamp, goes.Finalizers
	goingIngress.DeletionTimestamp, goingIngress.Finalizers = goes.DeletionTimestamp, goes.Finalizers
	serviceHeir, ingressHeir := claim.ServiceHolder("shop", "heir"), claim.IngressHolder("shop", "heir")
	for name, tc := range map[string]struct {
		heir      claim.Holder
		stored    []client.Object
		unguarded bool
		want      bool
	}{
		"a Service asks for it":                    {heir: serviceHeir, stored: []client.Object{service("class=public, host=" + host)}, want: true},
		"a Service asks for another":               {heir: serviceHeir, stored: []client.Object{service("class=public, host=" + host + ", path=/x")}},
		"a Service asks for another class":         {heir: serviceHeir, stored: []client.Object{service("class=internal, host=" + host)}},
		"a Service asks for nothing":               {heir: serviceHeir, stored: []client.Object{service("")}},
		"what a Service asks for is illegible":     {heir: serviceHeir, stored: []client.Object{service("class=public, host=" + host + ", nonsense")}},
		"a Service is being deleted":               {heir: serviceHeir, stored: []client.Object{goingService}},
		"its Ingress serves it, and it asks not":   {heir: serviceHeir, stored: []client.Object{service(""), ingress("public", host)}},
		"an Ingress of the name of the Service is": {heir: serviceHeir, stored: []client.Object{ingress("public", host)}},
		"an Ingress asks for it":                   {heir: ingressHeir, stored: []client.Object{ingress("public", host)}, want: true},
		"an Ingress that is not guarded":           {heir: ingressHeir, stored: []client.Object{ingress("public", host)}, unguarded: true},
		"an Ingress of another class":              {heir: ingressHeir, stored: []client.Object{ingress("internal", host)}},
		"an Ingress of another host":               {heir: ingressHeir, stored: []client.Object{ingress("public", "x.example.com")}},
		"an Ingress is being deleted":              {heir: ingressHeir, stored: []client.Object{goingIngress}},
		"a Service of the name of the Ingress":     {heir: ingressHeir, stored: []client.Object{service("class=public, host=" + host)}},
		"nobody is stored":                         {heir: ingressHeir},
		"no kind that is handed anything":          {heir: claim.GatewayHolder("shop", "heir"), stored: []client.Object{ingress("public", host)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("blog", "giver"), UID: "g"})
			c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: tc.heir.Spec("h"), Renewed: metav1.NewMicroTime(accesstest.Noon)}
			stored := accesstest.Cluster(t, append(tc.stored, c)...).Build()
			b, _ := accesstest.On(t, stored, stored)
			if !tc.unguarded {
				b.View.Hosts.Guarded = guard.Actions{guard.Ingress: guard.Deny}
			}
			r := &claimReconciler{Access: b}
			as := claim.AsHeirs(c)
			for _, reader := range []client.Reader{r.View.Reader, r.Live} {
				s, err := r.readHolder(t.Context(), reader, claim.HolderOf(as), []*v1beta1.EdgeClaim{as})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := s.asks(t.Context(), as); err != nil || got.Wants != tc.want || got.Wants && (got.UID != "h" || got.Generation != 7) {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
}
