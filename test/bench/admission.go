package main

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// leftOut is a namespace that the webhook leaves out: the same request without Portcullis.
const leftOut = "kube-system"

// admission measures creates that are told yes and creates that are told no, against the same without the webhook.
func (b *bench) admission() error {
	return b.on(harness.Options{}, func(s *stage) error {
		for _, users := range []int{1, 32} {
			if err := s.admission(users, b.of(map[int]int{1: 500, 32: 4000}[users], map[int]int{1: 100, 32: 640}[users])); err != nil {
				return err
			}
		}
		return nil
	})
}

// admission measures n requests of each kind by a number of users at once. The kinds take turns, so that whatever else
// the machine does is shared by all of them.
func (s *stage) admission(users, n int) error {
	const turns = 5
	class := fmt.Sprintf("admission-%d", users)
	s.b.say("admission: %d creates by %d client(s)", n, users)
	clients, namespaces, err := s.clients(class, users)
	if err == nil {
		err = s.class(class, false)
	}
	if err == nil {
		err = s.Client.Create(s.b.ctx, stream(namespaces[0], "incumbent", class, 1))
	}
	if err != nil {
		return err
	}
	var yes, no, without sample
	for turn := range turns {
		create := func(port int, in func(worker int) string) func(worker, i int) error {
			return func(worker, i int) error {
				i += turn * n / turns
				return clients[worker].Create(s.b.ctx, stream(in(worker), fmt.Sprintf("%s-%d", class, port+i), class, port+i))
			}
		}
		own := func(worker int) string { return namespaces[worker] }
		left := func(int) string { return leftOut }
		refused := func(worker, i int) error {
			err := clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("no-%d-%d", turn, i), class, 1))
			if err == nil {
				return errors.New("a held port was given to another stream")
			}
			if apierrors.IsInvalid(err) {
				return nil
			}
			return err
		}
		if err := errors.Join(
			yes.measure(users, n/turns, create(10000, own)),
			no.measure(users, n/turns, refused),
			without.measure(users, n/turns, create(30000, left)),
		); err != nil {
			return err
		}
	}
	s.b.add(section{
		Title: fmt.Sprintf("Admission, %d client(s)", users),
		About: fmt.Sprintf("%d creates that are told yes, and as many for a port that is held. A yes writes the claim into the ledger; "+
			"the same create without Portcullis writes the stream only.", n),
		Figures: []figure{
			figure{Name: "create, told yes, p50", Value: yes.at(50), Unit: "ms"}.against(without.at(50)),
			figure{Name: "create, told yes, p99", Value: yes.at(99), Unit: "ms"}.against(without.at(99)),
			figure{Name: "create, told no, p50", Value: no.at(50), Unit: "ms"}.against(without.at(50)),
			figure{Name: "create, told no, p99", Value: no.at(99), Unit: "ms"}.against(without.at(99)),
			figure{Name: "creates per second, told yes", Value: float64(len(yes.all)) / yes.elapsed, Unit: "1/s"}.
				against(float64(len(without.all)) / without.elapsed),
			{Name: "creates per second, told no", Value: float64(len(no.all)) / no.elapsed, Unit: "1/s"},
		},
	})
	for _, ns := range append(namespaces, leftOut) {
		if err := s.Client.DeleteAllOf(s.b.ctx, &v1beta1.StreamIngress{}, client.InNamespace(ns)); err != nil {
			return err
		}
	}
	return s.calm(class)
}
