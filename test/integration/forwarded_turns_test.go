package integration

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestForwardedInTurns has a namespace wait with many ports, and five others with one each, until all may be opened: those are not behind
// all of its.
func TestForwardedInTurns(t *testing.T) {
	w := shared(t)
	class := kernelClass("turns", "turns")
	w.create(namespace("turns-a"), addressPool("turns", []string{"198.18.64.56"}, onRequest), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	const many, others = 110, 5 // the status of a class lists 128 at most
	w.createSideBySide(many, func(i int) client.Object {
		return sti(fmt.Sprintf("turns-a/s-%d", i), of("turns"), tcp(int32(1000+i)))
	})
	for i := range others {
		ns := fmt.Sprintf("turns-b%d", i)
		w.create(namespace(ns), sti(ns+"/s", of("turns"), tcp(int32(2000+i))))
	}
	w.eventually("all to wait", func() error {
		w.get(class)
		return is(len(class.Status.Refused), many+others)
	})

	services := w.followServices("turns")
	w.create(namespace("turns"))
	var order []string
	for svc := range services {
		if !slices.Contains(order, svc.Name) {
			order = append(order, svc.Name)
		}
		if len(order) == many+others {
			break
		}
	}
	for i := range others {
		name := v1beta1.StreamServiceName("turns", TCP, int32(2000+i))
		if at := slices.Index(order, name); at > many/3 {
			t.Errorf("%s is opened after %d others", name, at)
		}
	}
}
