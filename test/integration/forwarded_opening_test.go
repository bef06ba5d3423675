package integration

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestNoPortIsReleasedWhileItOpens holds the write back that opens a port, and deletes the stream meanwhile. The port is nobody else's
// until what that write has opened is closed.
func TestNoPortIsReleasedWhileItOpens(t *testing.T) {
	w := shared(t)
	class := kernelClass("opening", "opening")
	w.create(namespace("opening"), namespace("opening-a"), addressPool("opening", []string{"198.18.64.64"}, onRequest), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	held := &holding{pass: make(chan struct{}), waiting: map[int]bool{}}
	t.Cleanup(held.let)
	w.interpose("holding-opening", `{
		"rules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["services"], "operations": ["CREATE"]}],
		"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "opening"}},
		"matchConditions": [{"name": "portcullis", "expression": "request.userInfo.username == '`+harness.User+`'"}]
	}`, held)
	config, err := w.ConfigFor(harness.User, harness.Groups...)
	must(w, err)
	portcullis, err := client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: w.Client.RESTMapper()})
	must(w, err)
	w.eventually("the API server to know the webhook", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = portcullis.Create(ctx, service("opening/probe", port("http", 80)), client.DryRunAll)
		asked, _ := held.last()
		return is(asked > 0, true)
	})

	s := sti("opening-a/s", of("opening"), tcp(80))
	before, _ := held.last()
	w.create(s)
	w.eventually("the write to be held back", func() error {
		now, waiting := held.last()
		return is(waiting && now > before, true)
	})
	w.delete(s)
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err := is(w.holder("opening", TCP, 80), "StreamIngress opening-a/s"); err != nil {
			t.Fatal("while the port is being opened: ", err)
		}
	}
	held.let()
	w.forwards("opening", TCP, 80, "closed")
	w.heldBy("opening", TCP, 80, "")
}
