package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/pods"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// population creates Pods and gives them their IPs.
func (s *stage) population(string) error {
	user, err := s.user()
	if err != nil {
		return err
	}
	p := &pods.Population{Client: user, Size: s.b.of(20000, 200), Labeled: s.b.of(2000, 100), Writers: 16}
	s.b.say("pods: %d Pods, %d of them with PodToIPs", p.Size, p.Labeled)
	before, err := s.written()
	if err != nil {
		return err
	}
	if err := p.Create(s.b.ctx); err != nil {
		return err
	}
	s.b.say("pods: they get their IPs")
	took, err := p.Run(s.b.ctx)
	if err != nil {
		return err
	}
	writes, err := s.since(before, harness.User)
	if err != nil {
		return err
	}
	slim, plain, err := p.CachedBytes(s.b.ctx, s.Config())
	if err != nil {
		return err
	}
	s.b.add(report.Section{
		Title: fmt.Sprintf("%d Pods", p.Size),
		About: fmt.Sprintf("Pods as a Deployment of a small web service makes them; %d are in namespaces that have PodToIPs. "+
			"Measured is the time from the request that sets a Pod's IP to the PodToIP, while %d requests at a time do so.",
			p.Labeled, p.Writers),
		Figures: []report.Figure{
			{Name: "IP to PodToIP, p50", Value: took.At(50), Unit: "ms"},
			{Name: "IP to PodToIP, p99", Value: took.At(99), Unit: "ms"},
			{Name: "writes per PodToIP", Value: float64(writes.granted["podtoips"]) / float64(p.Labeled), Unit: "writes"},
			report.Figure{Name: "memory of a Pod in the cache", Value: slim, Unit: "B"}.Against("a plain cache", plain),
		},
	})
	return nil
}

// services creates Services that nobody asks anything of.
func (s *stage) services(n int) error {
	s.b.say("start-up: %d Services", n)
	clients, namespaces, err := s.clients("services", crowd)
	if err != nil {
		return err
	}
	return new(sample.Sample).Measure(crowd, n, func(worker, i int) error {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[worker], Name: fmt.Sprintf("service-%d", i)}}
		svc.Labels = map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}
		svc.Spec.ClusterIP = corev1.ClusterIPNone // for each other, the API server lists all addresses that it has given
		svc.Spec.Selector = map[string]string{"app.kubernetes.io/name": "web"}
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}}
		return clients[worker].Create(s.b.ctx, svc)
	})
}

const (
	// whyMuchMemory explains what the memory is for.
	whyMuchMemory = "Portcullis answers admission requests from memory, so that it holds every stream, claim, Service and Pod with the " +
		"fields that it uses, and indexes of them. To that come the program itself, some 35 MiB of it, and garbage of up to half of " +
		"what is in use. --pod-to-ip=off leaves out the Pods"
	// whyBusy explains what is done at rest.
	whyBusy = "it was measured for %s, which is the time from one look of the second reader of the ledger to the next. A look reads the " +
		"claims and what holds them anew from the API server; --audit-interval=0 turns it off"
)

// startUp lets a new process take over when everything is there and done.
func (s *stage) startUp(string) error {
	services := s.b.of(10000, 100)
	if err := s.services(services); err != nil {
		return err
	}
	if err := s.Replicas[0].Terminate(); err != nil {
		return err
	}
	before, err := s.written()
	if err != nil {
		return err
	}
	s.b.say("start-up: a new process reads everything")
	began := time.Now()
	r, err := s.StartReplica(s.b.ctx)
	if err != nil {
		return err
	}
	ready := time.Since(began)
	// Go gives memory back slowly, and collects garbage at least every two minutes.
	rest := time.Duration(s.b.of(70, 10)) * time.Second
	s.b.say("start-up: ready; it is left alone for %s, and then while the second reader looks twice", rest)
	if err := harness.Pause(s.b.ctx, rest); err != nil {
		return err
	}
	cpu := process.CPUSeconds(r.PID())
	busy, atRest, err := s.busyAtRest(r.PID())
	if err != nil {
		return err
	}
	memory := process.Memory(r.PID())
	s.b.profile("start-up")()
	writes, err := s.since(before, harness.User)
	if err != nil {
		return err
	}
	n, which := 0, []string{}
	for _, resource := range slices.Sorted(maps.Keys(writes.granted)) {
		n += writes.granted[resource]
		which = append(which, fmt.Sprintf("%s %d", resource, writes.granted[resource]))
	}
	var streams v1beta1.StreamIngressList
	if err := s.Client.List(s.b.ctx, &streams); err != nil {
		return err
	}
	s.b.add(report.Section{
		Title: "Start-up",
		About: fmt.Sprintf("A new process with %d streams, %d Services and %d Pods, where everything is as it should be.",
			len(streams.Items), services, s.b.of(20000, 200)),
		Figures: []report.Figure{
			{Name: "start to ready", Value: ready.Seconds(), Unit: "s"},
			report.Figure{Name: "writes, other than to its own namespace, where it says who leads", Value: float64(n), Unit: "writes"}.
				AtMost(0, strings.Join(which, ", ")),
			report.Figure{Name: "memory at rest", Value: memory, Unit: "MiB"}.AtMost(150, whyMuchMemory),
			{Name: "memory at its peak", Value: process.Peak(r.PID()), Unit: "MiB"},
			{Name: "CPU time until it came to rest", Value: cpu, Unit: "s"},
			report.Figure{Name: "CPU at rest", Value: atRest, Unit: "% of a core"}.AtMost(1, fmt.Sprintf(whyBusy, busy.Round(time.Second))),
			{Name: "from one look of the second reader to the next", Value: busy.Seconds(), Unit: "s"},
		},
	})
	return nil
}

// busyAtRest is how much of a core a process uses, in percent, from the end of one look of the second reader to the end of the next:
// the longer they are apart, the more they cost, so that a window of any other length would have too few or too many.
func (s *stage) busyAtRest(pid int) (window time.Duration, percent float64, err error) {
	if err := s.awaitLook(); err != nil {
		return 0, 0, err
	}
	began, cpu := time.Now(), process.CPUSeconds(pid)
	if err := s.awaitLook(); err != nil {
		return 0, 0, err
	}
	window = time.Since(began)
	return window, (process.CPUSeconds(pid) - cpu) / window.Seconds() * 100, nil
}

const (
	// lookLasts is more than a look of the second reader takes, from when it first reads a page of claims.
	lookLasts = 10 * time.Second
	// looksApart is more than the second reader ever waits.
	looksApart = 12 * time.Minute
)

// awaitLook returns when the second reader has looked once more. Nobody else lists the claims while nothing happens. It asks the
// API server: Portcullis would be busy with counting its claims for each answer.
func (s *stage) awaitLook() error {
	before, err := s.claimLists()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(looksApart); time.Now().Before(deadline); {
		if err := harness.Pause(s.b.ctx, time.Second); err != nil {
			return err
		}
		if lists, err := s.claimLists(); err != nil {
			return err
		} else if lists > before {
			return harness.Pause(s.b.ctx, lookLasts)
		}
	}
	return fmt.Errorf("the second reader has not looked for %s", looksApart)
}

// claimLists is how many lists of claims the API server has given.
func (s *stage) claimLists() (float64, error) {
	return s.sum("apiserver_request_total{", func(labels string) bool {
		return strings.Contains(labels, `resource="edgeclaims"`) && strings.Contains(labels, `verb="LIST"`)
	})
}
