package kube

import (
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
	toolscachetesting "k8s.io/client-go/tools/cache/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestHandlersReadWhatAnEventTells gives a handler events of a claim that was written here at an earlier version. When the handler is
// told, the write must not count any longer, in whichever way the handler was added.
func TestHandlersReadWhatAnEventTells(t *testing.T) {
	source := toolscachetesting.NewFakeControllerSource()
	informer, ok := CacheOptions().NewInformer(source, &v1beta1.EdgeClaim{}, 0, nil).(*claimInformer)
	if !ok {
		t.Fatal("the cache has another informer of claims")
	}
	c := claimOn("public", v1beta1.TCP, 80, claim.StreamHolder("shop", "a"))
	c.UID = "a"
	read := make(chan *v1beta1.EdgeClaim, 100)
	tell := func() {
		// What the cache shows is left out: only what was written counts.
		got, _ := informer.written.Get(c.Name, func() (*v1beta1.EdgeClaim, error) { return nil, nil })
		read <- got
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	}
	const handlers = 3
	for _, add := range [handlers]func() (toolscache.ResourceEventHandlerRegistration, error){
		func() (toolscache.ResourceEventHandlerRegistration, error) { return informer.AddEventHandler(handler) },
		func() (toolscache.ResourceEventHandlerRegistration, error) {
			return informer.AddEventHandlerWithResyncPeriod(handler, 0)
		},
		func() (toolscache.ResourceEventHandlerRegistration, error) {
			return informer.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
		},
	} {
		if _, err := add(); err != nil {
			t.Fatal(err)
		}
	}
	go informer.RunWithContext(t.Context())
	happens := func(what string, event func()) {
		t.Helper()
		written := c.DeepCopy()
		_ = informer.written.Write(written, func() error { written.ResourceVersion = "1"; return nil })
		event()
		for range handlers {
			if got := <-read; got != nil {
				t.Errorf("%s: a handler is told, and reads what was written at version %s", what, got.ResourceVersion)
			}
		}
	}
	// The source counts versions from 1 on.
	happens("added", func() { source.Add(c.DeepCopy()) })
	happens("updated", func() { source.Modify(c.DeepCopy()) })
	happens("deleted", func() { source.Delete(c.DeepCopy()) })
}
