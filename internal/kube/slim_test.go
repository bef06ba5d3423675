package kube

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// transformOf is what the cache makes of objects like one.
func transformOf(obj client.Object) toolscache.TransformFunc {
	options := CacheOptions()
	for of, by := range options.ByObject {
		if reflect.TypeOf(of) == reflect.TypeOf(obj) && by.Transform != nil {
			return by.Transform
		}
	}
	return options.DefaultTransform
}

// slimmed is what the cache keeps of an object, which must be the same however often it is asked.
func slimmed(t *testing.T, obj client.Object) any {
	t.Helper()
	slim := transformOf(obj)
	once, err := slim(obj.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	twice, err := slim(once)
	if err != nil || !reflect.DeepEqual(once, twice) {
		t.Errorf("the second time it keeps %v, %v", twice, err)
	}
	return once
}

// huge fills all metadata that a tenant can write.
func huge[T client.Object](obj T, and ...func(T)) T {
	long := strings.Repeat("x", 250<<10)
	obj.SetNamespace("shop")
	obj.SetName("web")
	obj.SetUID("uid-of-web")
	known, many := map[string]string{"example.com/junk": long}, map[string]string{v1beta1.LabelClass: "public"}
	for name := range annotations {
		known[name] = long
	}
	var finalizers []string
	owners := []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: "x", Controller: new(true)}}
	for i := range 4000 {
		many[fmt.Sprintf("example.com/%d", i)] = strings.Repeat("v", 63)
		finalizers = append(finalizers, fmt.Sprintf("example.com/%0200d", i))
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: long[:200], UID: "y"})
	}
	obj.SetAnnotations(known)
	obj.SetLabels(many)
	obj.SetFinalizers(finalizers)
	obj.SetOwnerReferences(owners)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"` + long + `":{}}`),
	}, {Manager: long}})
	for _, change := range and {
		change(obj)
	}
	return obj
}

// TestWhatATenantWritesIsBounded makes everything as large as it goes that a tenant can write and that says nothing.
func TestWhatATenantWritesIsBounded(t *testing.T) {
	long := strings.Repeat("x", 250<<10)
	service := func(kind corev1.ServiceType) *corev1.Service {
		return huge(&corev1.Service{}, func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{
				Type: kind, Selector: s.Labels, LoadBalancerIP: long, ExternalIPs: []string{long}, LoadBalancerSourceRanges: []string{long},
				Ports: []corev1.ServicePort{{Port: 80, AppProtocol: &long}},
			}
			s.Status.Conditions = []metav1.Condition{{Message: long}}
		})
	}
	ingress := func(marked bool) *networkingv1.Ingress {
		return huge(&networkingv1.Ingress{}, func(i *networkingv1.Ingress) {
			if !marked {
				i.Annotations, i.OwnerReferences = nil, nil
			}
			resource := networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: long, Name: long}}
			i.Spec.DefaultBackend = &resource
			i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{long}}}
			i.Spec.Rules = []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", Backend: resource}, {Path: "/" + long}}},
			}}}
		})
	}
	// What says nothing is in no text, and takes memory all the same.
	const nothing = 2000
	marked := func(tls ...networkingv1.IngressTLS) *networkingv1.Ingress {
		return huge(&networkingv1.Ingress{}, func(i *networkingv1.Ingress) { i.Spec.TLS = tls })
	}
	for name, obj := range map[string]client.Object{
		"a Service":                    service(corev1.ServiceTypeClusterIP),
		"an Ingress with much TLS":     marked(make([]networkingv1.IngressTLS, nothing)...),
		"one for TLS of many hosts":    marked(networkingv1.IngressTLS{Hosts: make([]string, nothing)}),
		"a Certificate for many names": huge(&cmv1.Certificate{}, func(c *cmv1.Certificate) { c.Spec.DNSNames = make([]string, nothing) }),
		"a load balancer":              service(corev1.ServiceTypeLoadBalancer),
		"an Ingress":                   ingress(false),
		"one that may be a Service's":  ingress(true),
		"a StreamIngress":              huge(&v1beta1.StreamIngress{}),
		"a ConfigMap with the label":   huge(ConfigMapObject()),
		"a Pod":                        huge(&corev1.Pod{}),
		"an EndpointSlice":             huge(&discoveryv1.EndpointSlice{}),
		"an EndpointSlice as one ours": huge(&discoveryv1.EndpointSlice{}, asOurs),
		"a ReferenceGrant": huge(&gatewayv1beta1.ReferenceGrant{}, func(g *gatewayv1beta1.ReferenceGrant) {
			g.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{{Kind: gatewayv1.Kind(long)}}
			g.Spec.To = []gatewayv1beta1.ReferenceGrantTo{{Kind: gatewayv1.Kind(long)}}
		}),
		"a ListenerSet": huge(&gatewayv1.ListenerSet{}, func(set *gatewayv1.ListenerSet) {
			for i := range int32(64) {
				allowed := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{Selector: &metav1.LabelSelector{MatchLabels: set.Labels}}}
				set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
					Name: gatewayv1.SectionName(fmt.Sprint(i)), Port: 1 + i, Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: allowed,
				})
			}
		}),
		"a TLSRoute of many names": huge(&gatewayv1.TLSRoute{}, func(r *gatewayv1.TLSRoute) {
			r.Spec.ParentRefs, r.Spec.Rules = make([]gatewayv1.ParentReference, nothing), make([]gatewayv1.TLSRouteRule, nothing)
			r.Spec.Hostnames = make([]gatewayv1.Hostname, nothing)
			r.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{Message: long}}}}
		}),
		"an HTTPRoute of many rules": huge(&gatewayv1.HTTPRoute{}, func(r *gatewayv1.HTTPRoute) {
			r.Spec.ParentRefs, r.Spec.Rules = make([]gatewayv1.ParentReference, nothing), make([]gatewayv1.HTTPRouteRule, nothing)
			r.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{Message: long}}}}
		}),
		"an HTTPRoute of as many paths as the API lets it have": huge(&gatewayv1.HTTPRoute{}, func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules = make([]gatewayv1.HTTPRouteRule, 16)
			for i := range 128 {
				rule := &r.Spec.Rules[i/8]
				rule.Filters = []gatewayv1.HTTPRouteFilter{{ExtensionRef: &gatewayv1.LocalObjectReference{Name: gatewayv1.ObjectName(long)}}}
				rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{
					Path:    &gatewayv1.HTTPPathMatch{Value: new(fmt.Sprintf("/%0100d", i))},
					Headers: []gatewayv1.HTTPHeaderMatch{{Name: "x", Value: long}},
				}, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: new("/" + long)}})
			}
		}),
		"a GRPCRoute of many rules": huge(&gatewayv1.GRPCRoute{}, func(r *gatewayv1.GRPCRoute) {
			r.Spec.ParentRefs, r.Spec.Rules = make([]gatewayv1.ParentReference, nothing), make([]gatewayv1.GRPCRouteRule, nothing)
			r.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{Message: long}}}}
		}),
		"a TCPRoute of many rules": huge(&gatewayv1.TCPRoute{}, func(r *gatewayv1.TCPRoute) {
			r.Spec.ParentRefs, r.Spec.Rules = make([]gatewayv1.ParentReference, nothing), make([]gatewayv1.TCPRouteRule, nothing)
			r.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{Message: long}}}}
		}),
		"a Certificate": huge(&cmv1.Certificate{}, func(c *cmv1.Certificate) {
			c.Spec = cmv1.CertificateSpec{CommonName: long, SecretName: long, DNSNames: []string{long, long}}
			c.Spec.IssuerRef.Kind = long
			c.Status.Conditions = []cmv1.CertificateCondition{{Type: cmv1.CertificateConditionReady, Message: long}, {Type: "x", Message: long}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(slimmed(t, obj))
			// The annotation ingress/http may have 16 KiB, those with host names 3 KiB, labels 4 KiB.
			most := 29 << 10
			if strings.Contains(name, "as many paths") {
				most += 128 * (100 + len(`{"path":{"type":"Exact","value":"/"}},`))
			}
			if err != nil || len(text) > most {
				t.Errorf("%d bytes are kept of it: %v", len(text), err)
			}
			if n := strings.Count(string(text), "{}") + strings.Count(string(text), `""`); n >= nothing {
				t.Errorf("%d times nothing is kept of it", n)
			}
		})
	}
}

// TestSelectorsAreShared: of a selector it is known whether there is one, and no Service has memory of its own for that.
func TestSelectorsAreShared(t *testing.T) {
	for _, selector := range []map[string]string{nil, {}, {"app": "web"}, {"app": "web", "tier": "front"}} {
		kept := slimmed(t, &corev1.Service{Spec: corev1.ServiceSpec{Selector: selector}}).(*corev1.Service).Spec.Selector
		if (len(kept) > 0) != (len(selector) > 0) || len(kept) > 0 && reflect.ValueOf(kept).Pointer() != reflect.ValueOf(someSelector).Pointer() {
			t.Errorf("of %v it keeps %v", selector, kept)
		}
	}
}

// TestListsOfStreamsHaveNoRoom: decoding leaves room for four in each list.
func TestListsOfStreamsHaveNoRoom(t *testing.T) {
	s := &v1beta1.StreamIngress{Status: v1beta1.StreamIngressStatus{
		Addresses: append(make([]string, 0, 4), "192.0.2.1"), Conditions: append(make([]metav1.Condition, 0, 4), metav1.Condition{Type: "Accepted"}),
	}}
	slim, err := transformOf(s)(s)
	if err != nil {
		t.Fatal(err)
	}
	if of := slim.(*v1beta1.StreamIngress).Status; cap(of.Addresses) != 1 || cap(of.Conditions) != 1 {
		t.Errorf("it keeps room for %d addresses and %d conditions", cap(of.Addresses), cap(of.Conditions))
	}
}

func asOurs(slice *discoveryv1.EndpointSlice) {
	slice.Labels[discoveryv1.LabelManagedBy] = EndpointSliceManager
	for range 1000 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(strings.Repeat("x", 63)), Port: new(int32(80))})
	}
}

// TestSlim has objects as honest people write them: what somebody reads is kept as it is.
func TestSlim(t *testing.T) {
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one", ResourceVersion: "7", Generation: 2}
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "two", Controller: new(true)}
	service := &corev1.Service{ObjectMeta: meta()}
	service.Labels = map[string]string{"team": "shop"}
	service.Annotations = map[string]string{v1beta1.AnnotationHTTP: "nginx", v1beta1.AnnotationAddresses: "192.0.2.7"}
	service.OwnerReferences = []metav1.OwnerReference{owner}
	service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}},
		Selector: someSelector, LoadBalancerClass: new("ours"), LoadBalancerIP: "192.0.2.7", ClusterIPs: []string{"10.0.0.7"},
		ExternalIPs:           []string{"198.51.100.7"},
		ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}}
	// One that is no load balancer, and names addresses by which pools judge it.
	naming := &corev1.Service{ObjectMeta: meta()}
	naming.Labels = map[string]string{"team": "shop"}
	naming.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.7", "2001:db8::7"},
	}
	si := &v1beta1.StreamIngress{ObjectMeta: meta()}
	si.Spec = v1beta1.StreamIngressSpec{ClassName: "public", Protocol: v1beta1.TCP, Listen: new(int32(80))}
	si.Spec.Upstream = v1beta1.StreamUpstream{Namespace: "data", Service: "db", Port: intstr.FromInt32(80)}
	si.Status = v1beta1.StreamIngressStatus{
		ObservedGeneration: 2, ClassName: "public", Listen: 80, Addresses: []string{"192.0.2.1"},
		Conditions: []metav1.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted", Message: "TCP/80 of class public is claimed"}},
	}
	held := claim.New(claim.Stream("public", v1beta1.TCP, 80), claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	held.Annotations = map[string]string{"kept": "as it is written back whole"}
	made := &networkingv1.Ingress{ObjectMeta: meta()}
	made.Annotations, made.OwnerReferences = map[string]string{v1beta1.AnnotationMadeFor: "two@7"}, []metav1.OwnerReference{owner}
	made.Spec = exposure.Exposure{
		Hosts: []string{"shop.example.com"}, Paths: []exposure.Path{{Type: networkingv1.PathTypePrefix, Value: "/"}}, Secret: "web-tls",
	}.IngressSpec("web", 80)
	foreign := &networkingv1.Ingress{ObjectMeta: meta(), Spec: *made.Spec.DeepCopy()}
	foreign.Spec.TLS = nil
	foreign.Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Labels: map[string]string{"app": "nginx"}}}
	class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	grant := &gatewayv1beta1.ReferenceGrant{ObjectMeta: meta()}
	grant.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "shop"}}
	grant.Spec.To = []gatewayv1beta1.ReferenceGrantTo{{Kind: "Service"}}
	on := gatewayv1.ParentReference{Name: "edge", SectionName: new(gatewayv1.SectionName("tls"))}
	route := &gatewayv1.TLSRoute{ObjectMeta: meta()}
	route.Spec.ParentRefs, route.Spec.Hostnames = []gatewayv1.ParentReference{on}, []gatewayv1.Hostname{"shop.example.com"}
	web := &gatewayv1.HTTPRoute{ObjectMeta: meta()}
	web.Spec.ParentRefs, web.Spec.Hostnames = []gatewayv1.ParentReference{on}, []gatewayv1.Hostname{"shop.example.com"}
	web.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{
		{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new("/")}},
		{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new("/login")}},
	}}}
	calls := &gatewayv1.GRPCRoute{ObjectMeta: meta()}
	calls.Spec.ParentRefs = []gatewayv1.ParentReference{on}
	calls.Spec.Rules = []gatewayv1.GRPCRouteRule{{Matches: []gatewayv1.GRPCRouteMatch{
		{}, {Method: &gatewayv1.GRPCMethodMatch{Service: new("shop.Carts")}}, {Method: &gatewayv1.GRPCMethodMatch{Service: new("shop.Carts"), Method: new("Add")}},
	}}}
	tcp := &gatewayv1.TCPRoute{ObjectMeta: meta()}
	tcp.Spec.ParentRefs = []gatewayv1.ParentReference{on}
	set := &gatewayv1.ListenerSet{ObjectMeta: meta()}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType, AllowedRoutes: &gatewayv1.AllowedRoutes{
		Namespaces: &gatewayv1.RouteNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}},
	}}}
	namespace := NamespaceObject()
	namespace.Name, namespace.Labels = "shop", map[string]string{"team": "shop"}
	for _, want := range []client.Object{service, naming, si, held, made, foreign, class, grant, route, web, calls, tcp, set, namespace} {
		t.Run(fmt.Sprintf("%T", want), func(t *testing.T) {
			full := want.DeepCopyObject().(client.Object)
			full.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
			if want != client.Object(held) {
				metav1.SetMetaDataAnnotation(metaOf(full), corev1.LastAppliedConfigAnnotation, "{}")
			}
			if diff := cmp.Diff(any(want), slimmed(t, full)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, of := range []client.Object{service, si, held, made, grant, &corev1.Pod{}, &discoveryv1.EndpointSlice{}, &corev1.Node{}, &v1beta1.PodToIP{}} {
		if got, err := transformOf(of)("tombstone"); err != nil || got != "tombstone" {
			t.Errorf("it made %v, %v of another object", got, err)
		}
	}
}

func metaOf(obj client.Object) *metav1.ObjectMeta {
	return reflect.ValueOf(obj).Elem().FieldByName("ObjectMeta").Addr().Interface().(*metav1.ObjectMeta)
}

// TestWhatIsCutIsStillJudgedTheSame judges what is too long, whole and as the cache has it.
func TestWhatIsCutIsStillJudgedTheSame(t *testing.T) {
	whole := huge(&corev1.Service{}, func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Labels["team"] = "shop"
		s.Annotations[v1beta1.AnnotationAddresses] = "192.0.2.7" + strings.Repeat(" ", 2000) + ",junk"
		s.Annotations[v1beta1.AnnotationHTTP] = strings.Repeat("path=/x, ", 4000)
	})
	cut := slimmed(t, whole).(*corev1.Service)
	_, errs := exposure.Parse(whole.Annotations[v1beta1.AnnotationHTTP])
	if _, got := exposure.Parse(cut.Annotations[v1beta1.AnnotationHTTP]); len(errs) == 0 || errs.ToAggregate().Error() != got.ToAggregate().Error() {
		t.Errorf("of ingress/http it is said %v, want %v", got, errs)
	}
	_, errs = loadbalancer.Read(whole)
	_, got := loadbalancer.Read(cut)
	if len(errs) != 3 || len(got) != len(errs) {
		t.Errorf("of the addresses it is said %v, want %v", got, errs)
	}
	for i := range got {
		if got[i].Field != errs[i].Field || got[i].Detail != errs[i].Detail {
			t.Errorf("it is said %v, want %v", got[i], errs[i])
		}
	}
	in := func(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		r := metav1.LabelSelectorRequirement{Key: "team", Operator: operator, Values: []string{"shop"}}
		if operator == metav1.LabelSelectorOpDoesNotExist {
			r.Values = nil
		}
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
	}
	for selector, want := range map[*metav1.LabelSelector]bool{
		nil: true, {}: true, in(metav1.LabelSelectorOpIn): false, in(metav1.LabelSelectorOpNotIn): false, in(metav1.LabelSelectorOpDoesNotExist): false,
	} {
		pool, errs := addresspool.New(&v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{
			Addresses: []string{"192.0.2.0/24"}, ServiceSelector: selector,
		}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for how, of := range map[string]labels.Set{"whole": whole.Labels, "cut": cut.Labels} {
			if pool.Serves(of, nil) != want {
				t.Errorf("the selector %v selects the Service with %s labels: %v", selector, how, !want)
			}
		}
	}
}

// TestEveryAnnotationOfTheAPIIsCached: one that is not in the list is in no cached object.
func TestEveryAnnotationOfTheAPIIsCached(t *testing.T) {
	list, err := os.ReadFile("metadata.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "api", "v1beta1", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if ok && strings.HasPrefix(spec.Names[0].Name, "Annotation") {
				found++
				if !strings.Contains(string(list), "v1beta1."+spec.Names[0].Name+":") {
					t.Errorf("%s is not in the list of those that are cached", spec.Names[0].Name)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("the API has no annotations")
	}
}

// TestReadsKeepWhatTheCacheDoes reads objects past the cache that a tenant has filled.
func TestReadsKeepWhatTheCacheDoes(t *testing.T) {
	filled := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Finalizers: []string{"tenant.example.com/large"}, Annotations: map[string]string{"large": "x"},
	}
	for _, stored := range []client.Object{
		&corev1.Service{ObjectMeta: filled}, &networkingv1.Ingress{ObjectMeta: filled}, &v1beta1.StreamIngress{ObjectMeta: filled},
	} {
		read := emptyOf(stored)
		reader := SlimReader{clientOf(t, stored).Build()}
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(stored), read); err != nil {
			t.Fatal(err)
		}
		if read.GetName() != "web" || len(read.GetFinalizers())+len(read.GetAnnotations()) > 0 {
			t.Errorf("of a %T it keeps %v", stored, read)
		}
	}
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public", Annotations: map[string]string{"large": "x"}}}
	read := &v1beta1.StreamIngressClass{}
	err := SlimReader{clientOf(t, class).Build()}.Get(t.Context(), client.ObjectKeyFromObject(class), read)
	if err != nil || len(read.Annotations) != 1 {
		t.Errorf("of a class it keeps %v, %v", read, err)
	}
	if err := (SlimReader{clientOf(t).Build()}).Get(t.Context(), client.ObjectKeyFromObject(class), read); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("of none it says %v", err)
	}
}
