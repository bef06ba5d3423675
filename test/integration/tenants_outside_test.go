package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// Where streams may lead, and what a class that goes and comes back changes in that.

// TestLeaveToLeadOutside is asked for whenever the host changes, and can be withdrawn: by a class that is deleted and made
// again, as admission refuses to change one that streams count on.
func TestLeaveToLeadOutside(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, Flags: []string{"--cluster-domain=corp.example.org"}}))
	e := w.newEdge("leave")
	w.create(namespace("leave"))
	byIP := sti("leave/ip", of("leave"), tcp(1), outside("192.0.2.7", 5432))
	byName := sti("leave/name", of("leave"), tcp(2), outside("db.example.com", 5432))
	w.create(byIP, byName)
	e.leads(TCP, 1, "leave/sti-ip:5432")
	e.leads(TCP, 2, "leave/sti-name:5432")

	t.Log("not to where a machine is told its credentials, however that is written, and not to names of the cluster")
	for _, host := range []string{
		"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254",
		"fd00:ec2::254", "fd20:ce::254", "64:ff9b::7f00:1",
		"db.shop.svc", "db.shop.svc.corp.example.org", "corp.example.org", "node.corp.example.org", "localhost",
	} {
		if err := tryEdit(w, byIP, outside(host, 5432)); err == nil {
			t.Errorf("a stream may lead to %s", host)
		}
	}

	t.Log("not by a class without leave, to a Service that was made for one with it")
	w.create(streamClass("stay", e.namespace+"-stay", insideOnly))
	by := sti("leave/by", of("stay"), tcp(1), to("sti-ip", 5432))
	w.everyReplica("the Service to be known as one that leads outside", func() error {
		return says(w.Client.Create(t.Context(), by.DeepCopy(), client.DryRunAll), "leads out of the cluster")
	})
	mustContain(t, w.refusal(w.try(by)).Error(), "leads out of the cluster")

	t.Log("withdrawn, the entry goes and the port stays the stream's")
	w.delete(e.class)
	e.class = streamClass("leave", e.namespace, insideOnly)
	w.create(e.class)
	e.leads(TCP, 1, "closed")
	e.leads(TCP, 2, "closed")
	e.reaches(byIP, "nothing")
	e.reaches(byName, "nothing")
	w.has(byIP, v1beta1.ConditionResolvedRefs, "False RefNotPermitted")
	e.heldBy("leave", TCP, 1, "StreamIngress leave/ip")
	w.everyReplica("the class without leave to be known", func() error {
		return says(dryEdit(w, byIP, outside("10.0.0.7", 5432)), "outsideUpstreams: Denied")
	})
	for _, host := range []string{"10.0.0.7", "other.example.com"} {
		mustContain(t, w.refusal(tryEdit(w, byIP, outside(host, 5432))).Error(), "outsideUpstreams: Denied")
	}
	mustContain(t, w.refusal(w.try(sti("leave/new", of("leave"), tcp(3), outside("192.0.2.7", 5432)))).Error(), "outsideUpstreams: Denied")
	e.reaches(byIP, "nothing")

	t.Log("given again, all is as it was")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideAllowed })
	e.leads(TCP, 1, "leave/sti-ip:5432")
	e.reaches(byIP, "TCP 192.0.2.7:5432")
	e.leads(TCP, 2, "leave/sti-name:5432")
}

// TestNothingLeadsOutsideWithoutAStreamAndLeave has tenants who write streams and Services, but no EndpointSlices, try to keep one:
// by a finalizer of a stream, by orphaning what it had, and by taking its Service.
func TestNothingLeadsOutsideWithoutAStreamAndLeave(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{Controllers: true}}))
	must(w, w.StartControllers(t.Context()))
	e := w.newEdge("leave")
	w.create(namespace("leave"))
	lingers := finalizer("tenant.example.com/mine")
	kept := sti("leave/kept", of("leave"), tcp(1), outside("10.0.0.7", 5432), lingers)
	opened := sti("leave/opened", of("leave"), tcp(2), outside("10.0.0.8", 5432), lingers)
	taken := sti("leave/taken", of("leave"), tcp(3), outside("10.0.0.9", 5432))
	gone := sti("leave/gone", of("leave"), tcp(4), outside("10.0.0.10", 5432))
	w.create(kept, opened, taken, gone)
	e.reaches(kept, "TCP 10.0.0.7:5432")
	e.reaches(opened, "TCP 10.0.0.8:5432")
	e.reaches(taken, "TCP 10.0.0.9:5432")
	e.reaches(gone, "TCP 10.0.0.10:5432")
	open := func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeNodePort }

	t.Log("a Service that is taken from its stream leads nowhere")
	edit(w, service("leave/sti-taken"), func(svc *corev1.Service) {
		svc.OwnerReferences = nil
		open(svc)
	})
	e.leadsNowhere("leave/sti-taken")
	w.has(taken, v1beta1.ConditionResolvedRefs, "False BackendNameTaken")
	w.delete(service("leave/sti-taken"))
	e.reaches(taken, "TCP 10.0.0.9:5432")

	t.Log("nor does one that is opened while its stream is being deleted, or one that is left")
	w.delete(kept, opened, gone)
	edit(w, service("leave/sti-opened"), open)
	e.reaches(opened, "nothing")
	e.reaches(gone, "nothing")

	t.Log("nor does one that is orphaned, until a stream has one of that name again")
	e.orphans(sti("leave/orphan", of("leave"), tcp(5), outside("10.0.0.11", 5432)))
	e.leadsNowhere("leave/sti-orphan")
	again := sti("leave/orphan", of("leave"), tcp(5), outside("2001:db8::11", 5432))
	w.create(again)
	w.has(again, v1beta1.ConditionResolvedRefs, "False BackendNameTaken")
	w.delete(service("leave/sti-orphan"))
	e.reaches(again, "TCP 2001:db8::11:5432")

	t.Log("with leave, a stream that is being deleted keeps what it has")
	e.reaches(kept, "TCP 10.0.0.7:5432")
	e.leads(TCP, 1, "leave/sti-kept:5432")
	w.delete(e.class)
	e.class = streamClass("leave", e.namespace, insideOnly)
	w.create(e.class)
	e.leads(TCP, 1, "closed")
	e.reaches(kept, "nothing")
	e.reaches(taken, "nothing")
	e.reaches(again, "nothing")
}

// orphans makes a stream, and deletes it so that its Service stays. A garbage collector that has yet to learn of the Service
// deletes that, too, and the stream is made again.
func (e *edge) orphans(s *v1beta1.StreamIngress) {
	e.t.Helper()
	svc := service(s.Namespace + "/" + s.UpstreamService())
	e.eventually("the Service to be orphaned", func() error {
		s := s.DeepCopy()
		e.create(s)
		e.reaches(s, fmt.Sprintf("TCP %s:%d", s.Spec.Upstream.Host, s.Spec.Upstream.Port.IntVal))
		must(e.fixture, e.Client.Delete(e.t.Context(), s, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		stays := false
		e.eventually("the Service to be orphaned or deleted", func() error {
			err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(svc), svc)
			if stays = err == nil; stays && len(svc.OwnerReferences) > 0 {
				return fmt.Errorf("it is owned by %v", svc.OwnerReferences)
			}
			return client.IgnoreNotFound(err)
		})
		// The garbage collector lets the stream go only after it has orphaned the Service; until then no other can have the name.
		e.eventually("the stream to be gone", func() error {
			err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(s), &v1beta1.StreamIngress{})
			return is(apierrors.IsNotFound(err), true)
		})
		return is(stays, true)
	})
}

// leadsNowhere waits until a Service has no EndpointSlice.
func (e *edge) leadsNowhere(service string) {
	e.t.Helper()
	namespace, name, _ := strings.Cut(service, "/")
	e.eventually("no EndpointSlice for "+service, func() error {
		var slices discoveryv1.EndpointSliceList
		err := e.Client.List(e.t.Context(), &slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name})
		if err == nil && len(slices.Items) > 0 {
			err = fmt.Errorf("there is one to %v", slices.Items[0].Endpoints)
		}
		return err
	})
}

// TestForeignPortsOutliveTheirObject: what is foreign on a proxy stays so while its Service or its ConfigMap is made anew.
func TestForeignPortsOutliveTheirObject(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{Audit: true}}))
	e := w.newManualEdge("anew")
	w.create(namespace("first"))
	held := func(port int32, by string) {
		t.Helper()
		w.toldOf(sti("first/s", of("anew"), tcp(port)), "spec.listen: Duplicate value", "held by "+by)
	}
	const byService, byConfigMap = "Service edge-anew/proxy", "ConfigMap edge-anew/tcp-services"
	e.heldBy("anew", TCP, 443, byService)
	e.heldBy("anew", TCP, 9000, byConfigMap)

	w.delete(service(e.namespace+"/proxy"), configMap(e.namespace+"/tcp-services", nil))
	w.create(sti("first/other", of("anew"), tcp(5432))) // has the class write its ConfigMap anew
	w.eventually("the ConfigMap to be made anew", func() error { return is(e.answers(TCP, 5432), "no port: first/web:80") })
	w.settles(5 * time.Second)
	held(443, byService)
	held(9000, byConfigMap)

	t.Log("they are as they were, with their owner's help")
	e.applyOwners()
	edit(w, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data["9000"], cm.Data["note"] = manual, "keep me" })
	e.leads(TCP, 5432, "first/web:80")
	held(443, byService)
	held(9000, byConfigMap)
	e.intact()
	cm, c := configMap(e.namespace+"/tcp-services", nil), &v1beta1.EdgeClaim{}
	c.Name = claim.Stream("anew", TCP, 9000).Name()
	w.eventually("the ledger to know the new ConfigMap", func() error {
		w.get(cm, c)
		return is(c.Spec.Holder.UID, cm.UID)
	})

	t.Log("what the owner takes away is free, whichever object it was in")
	edit(w, cm, func(cm *corev1.ConfigMap) { delete(cm.Data, "9000"); delete(cm.Data, "note") })
	e.heldBy("anew", TCP, 9000, "")
	edit(w, service(e.namespace+"/proxy"), func(svc *corev1.Service) {
		svc.Spec.Ports = slices.DeleteFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 443 })
	})
	e.heldBy("anew", TCP, 443, "")
}
