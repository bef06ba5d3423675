package main

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// changes measures single changes with all the other streams there.
func (s *stage) changes(full string) error {
	others := s.b.inHouse()
	section := report.Section{
		Title: fmt.Sprintf("Changes in a full house of %d streams", others),
		About: "One stream at a time: from the create to the status that says that the ConfigMap has the entry and the Service the port. " +
			"Once in the class that has all the other streams in one ConfigMap and one Service, once in a class with few; " +
			"and from the creation of an upstream Service to the status of the stream that waits for it.",
	}
	if err := s.class("few", true); err != nil {
		return err
	}
	for _, c := range []struct{ class, name, why string }{
		{full, "the class with all streams", whySlowChange}, {"few", "a class with few", ""},
	} {
		took, err := s.opening(c.class, s.b.of(30, 3))
		if err != nil {
			return err
		}
		worst := report.Figure{Name: "create to programmed in " + c.name + ", p99", Value: took.At(99), Unit: "ms"}.AtMost(500, c.why)
		section.Figures = append(section.Figures,
			report.Figure{Name: "create to programmed in " + c.name + ", p50", Value: took.At(50), Unit: "ms"}, worst)
	}
	resolved, err := s.resolving("few", s.b.of(100, 5))
	if err != nil {
		return err
	}
	section.Figures = append(section.Figures,
		report.Figure{Name: "Service created to status, p50", Value: resolved.At(50), Unit: "ms"},
		report.Figure{Name: "Service created to status, p99", Value: resolved.At(99), Unit: "ms"})
	s.b.add(section)
	return nil
}

// whySlowChange explains what one change of a large Service takes.
const whySlowChange = "for each change of one port, the API server merges, validates and stores the whole Service with all its ports and " +
	"who owns each of their fields, and sends it to those who watch it"

// opening measures how long it takes until a new stream's port is open, n times.
func (s *stage) opening(class string, n int) (*sample.Sample, error) {
	s.b.say("changes: %d streams of class %s are created, one after the other", n, class)
	_, namespaces, err := s.clients("open-"+class, 1)
	if err != nil {
		return nil, err
	}
	open, stop, err := s.streamsWhose(v1beta1.ConditionProgrammed)
	if err != nil {
		return nil, err
	}
	defer stop()
	took := &sample.Sample{}
	for i := range n {
		si := stream(namespaces[0], fmt.Sprintf("open-%s-%d", class, i), class, 60000+i)
		began := time.Now()
		if err := s.Client.Create(s.b.ctx, si); err != nil {
			return nil, err
		}
		at, err := open.wait(s.b.ctx, si.Name)
		if err != nil {
			return nil, err
		}
		took.Add(at.Sub(began))
		// The next one is no part of a burst.
		if err := harness.Pause(s.b.ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// streamsWhose notes when streams first have a condition that is true, by their name.
func (s *stage) streamsWhose(condition string) (*sightings, func(), error) {
	return s.watching(&v1beta1.StreamIngressList{}, func(e watch.Event) string {
		if si, ok := e.Object.(*v1beta1.StreamIngress); ok && meta.IsStatusConditionTrue(si.Status.Conditions, condition) {
			return si.Name
		}
		return ""
	})
}

// resolving measures how long it takes until a stream's status knows of its upstream, n times.
func (s *stage) resolving(class string, n int) (*sample.Sample, error) {
	s.b.say("changes: %d upstream Services are created, one after the other", n)
	_, namespaces, err := s.clients("resolve", 1)
	if err != nil {
		return nil, err
	}
	resolved, stop, err := s.streamsWhose(v1beta1.ConditionResolvedRefs)
	if err != nil {
		return nil, err
	}
	defer stop()
	open, stopOpen, err := s.streamsWhose(v1beta1.ConditionProgrammed)
	if err != nil {
		return nil, err
	}
	defer stopOpen()
	for i := range n {
		si := stream(namespaces[0], fmt.Sprintf("resolve-%d", i), class, 2000+i)
		si.Spec.Upstream.Service = si.Name
		if err := s.Client.Create(s.b.ctx, si); err != nil {
			return nil, err
		}
	}
	took := &sample.Sample{}
	for i := range n {
		name := fmt.Sprintf("resolve-%d", i)
		if _, err := open.wait(s.b.ctx, name); err != nil {
			return nil, err
		}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: name}}
		svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		began := time.Now()
		if err := s.Client.Create(s.b.ctx, svc); err != nil {
			return nil, err
		}
		at, err := resolved.wait(s.b.ctx, name)
		if err != nil {
			return nil, err
		}
		took.Add(at.Sub(began))
	}
	return took, nil
}

// crowd measures creates by many users at once with all the other streams there.
func (s *stage) crowd(string) error {
	users, n := 150, s.b.of(1500, 300)
	s.b.say("crowd: %d creates by %d clients", n, users)
	if err := s.class("crowd", false); err != nil {
		return err
	}
	clients, namespaces, err := s.clients("crowd", users)
	if err != nil {
		return err
	}
	create := func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("crowd-%d", i), "crowd", 20000+i))
	}
	var took sample.Sample
	if err := took.Measure(users, n, create); err != nil {
		return err
	}
	atOnce, waves, err := s.waves(namespaces, n, create)
	if err := errors.Join(err, s.vacate(namespaces, "crowd")); err != nil {
		return err
	}
	const goal = 1000
	s.b.add(report.Section{
		Title: fmt.Sprintf("%d parallel creates in a full house", users),
		About: fmt.Sprintf("%d creates with %d streams present, while the same process programs them and reports their status: one after the "+
			"other by each of %d clients, so that there are always %d; and %d times %d at once, when what was created before is programmed.",
			n, s.b.inHouse(), users, users, waves, users),
		Figures: []report.Figure{
			{Name: "create, p50", Value: took.At(50), Unit: "ms"},
			report.Figure{Name: "create, p99", Value: took.At(99), Unit: "ms"}.
				AtMost(goal, fmt.Sprintf("with %d clients at once and %.0f creates per second, each waits for %.1f s in the mean. The API server, "+
					"etcd, the clients, and the writes of the streams' claims, statuses and events share the machine", users, took.Rate(),
					float64(users)/took.Rate())),
			{Name: "creates per second", Value: took.Rate(), Unit: "1/s"},
			{Name: fmt.Sprintf("%d at once: create, p50", users), Value: atOnce.At(50), Unit: "ms"},
			report.Figure{Name: fmt.Sprintf("%d at once: create, p99", users), Value: atOnce.At(99), Unit: "ms"}.
				AtMost(goal, "the last of so many waits for all the others"),
		},
	})
	return nil
}

// waves measures creates that begin all at once, one by each user, again when all of before are programmed. The first has the number
// that is given.
func (s *stage) waves(namespaces []string, first int, create func(worker, i int) error) (took *sample.Sample, waves int, err error) {
	took, waves = new(sample.Sample), s.b.of(10, 2)
	users := len(namespaces)
	for wave := range waves {
		if err := s.all(namespaces, isOpen); err != nil {
			return nil, 0, err
		}
		if err := took.Measure(users, users, func(worker, i int) error { return create(worker, first+wave*users+i) }); err != nil {
			return nil, 0, err
		}
	}
	return took, waves, s.all(namespaces, isOpen)
}

// vacate deletes the streams of some namespaces and waits until nothing is claimed in their class, so that the house is what it was.
func (s *stage) vacate(namespaces []string, class string) error {
	for _, ns := range namespaces {
		if err := s.Client.DeleteAllOf(s.b.ctx, &v1beta1.StreamIngress{}, client.InNamespace(ns)); err != nil {
			return err
		}
	}
	return s.untilEvery(time.Second, func() (bool, error) {
		var claims v1beta1.EdgeClaimList
		err := s.Client.List(s.b.ctx, &claims, client.MatchingFields{kube.IndexScope: claim.StreamScope(class)})
		return len(claims.Items) == 0, err
	})
}
