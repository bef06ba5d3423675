package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// controllersTest is what a user sees of the controller manager, with a client for a run.
type controllersTest struct {
	client.Client
	*testing.T
}

// eventually waits until check returns nil.
func (c controllersTest) eventually(what string, check func() error) {
	c.Helper()
	var err error
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	c.Fatalf("waiting for %s: %v", what, err)
}

// patiently makes a request until Portcullis was asked: the API server waits 3 seconds for it, and this machine may stand
// still for longer.
func patiently(request func() error) error {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		err := request()
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") || time.Now().After(deadline) {
			return err
		}
	}
}

func (c controllersTest) create(object client.Object) {
	c.Helper()
	if err := patiently(func() error { return c.Create(c.Context(), object) }); err != nil {
		c.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

func (c controllersTest) namespace(name string) *corev1.Namespace {
	c.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.create(namespace)
	return namespace
}

// exists waits until an object is there.
func (c controllersTest) exists(object client.Object) {
	c.Helper()
	c.eventually(fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object)), func() error {
		return c.Get(c.Context(), client.ObjectKeyFromObject(object), object)
	})
}

// goes waits until an object is there no more.
func (c controllersTest) goes(object client.Object) {
	c.Helper()
	c.eventually(fmt.Sprintf("the end of %T %s", object, client.ObjectKeyFromObject(object)), func() error {
		err := c.Get(c.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// exposed makes a Service that asks for an Ingress, and returns both.
func (c controllersTest) exposed(namespace string) (*corev1.Service, *networkingv1.Ingress) {
	c.Helper()
	name := metav1.ObjectMeta{Namespace: namespace, Name: "web"}
	svc := &corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: "class=nginx, host=" + namespace + ".example.com"}
	c.create(svc)
	ingress := &networkingv1.Ingress{ObjectMeta: name}
	c.exists(ingress)
	return svc, ingress
}

// stream returns a stream that takes any port.
func stream(namespace, name string) *v1beta1.StreamIngress {
	return &v1beta1.StreamIngress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1beta1.StreamIngressSpec{Upstream: v1beta1.StreamUpstream{Service: "web", Port: intstr.FromInt32(80)}},
	}
}

// service deletes a Service, and its Ingress goes.
func (c controllersTest) service() {
	c.namespace("leaving")
	svc, ingress := c.exposed("leaving")
	if err := c.Delete(c.Context(), svc); err != nil {
		c.Fatal(err)
	}
	c.goes(ingress)
}

// outside deletes a stream to something outside, and the Service that stands for it there goes.
func (c controllersTest) outside() {
	c.namespace("outside")
	ldap := stream("outside", "ldap")
	ldap.Spec.IsService, ldap.Spec.Upstream = new(false), v1beta1.StreamUpstream{Host: "192.0.2.10", Port: intstr.FromInt32(636)}
	c.create(ldap)
	name := metav1.ObjectMeta{Namespace: "outside", Name: "sti-ldap"}
	svc, slice := &corev1.Service{ObjectMeta: name}, &discoveryv1.EndpointSlice{ObjectMeta: name}
	c.exists(svc)
	c.exists(slice)
	if err := c.Delete(c.Context(), ldap); err != nil {
		c.Fatal(err)
	}
	c.goes(svc)
	c.goes(slice)
}

// ending deletes a namespace, and everything in it goes, with the claims.
func (c controllersTest) ending() {
	namespace := c.namespace("ending")
	_, ingress := c.exposed(namespace.Name)
	one := stream(namespace.Name, "one")
	c.create(one)
	if err := c.Delete(c.Context(), namespace); err != nil {
		c.Fatal(err)
	}
	c.goes(namespace)
	c.goes(ingress)
	c.goes(one)
	c.eventually("the claims to be released", func() error {
		claims := &v1beta1.EdgeClaimList{}
		if err := c.List(c.Context(), claims); err != nil {
			return err
		}
		for i := range claims.Items {
			if holder := claims.Items[i].Spec.Holder; holder.Namespace == namespace.Name {
				return fmt.Errorf("%s is held by %s", claims.Items[i].Spec.Point, claims.Items[i].Spec.HeldBy)
			}
		}
		return nil
	})
}

// quota refuses the second stream of a namespace.
func (c controllersTest) quota() {
	const streams corev1.ResourceName = "count/streamingresses." + v1beta1.GroupName
	namespace := c.namespace("counted").Name
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{streams: resource.MustParse("1")}},
	}
	c.create(quota)
	c.eventually("the quota to be counted", func() error {
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if _, counted := quota.Status.Used[streams]; !counted {
			return errors.New("its status says nothing")
		}
		return nil
	})
	c.eventually("admission to know that it is", func() error { return c.Create(c.Context(), stream(namespace, "first")) })
	c.eventually("the quota to refuse the second stream", func() error {
		second := stream(namespace, "second")
		err := patiently(func() error { return c.Create(c.Context(), second) })
		if err == nil { // who counts again and again may not have seen the first yet
			return errors.Join(errors.New("it was created"), c.Delete(c.Context(), second))
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: one") {
			return err
		}
		return nil
	})
}
