package main

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/allocation"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// assigner is a controller that gives Services addresses: Portcullis or MetalLB.
type assigner struct {
	name, class, user string
	pool              func(name, cidr string) client.Object
	// start starts it, and returns the process that works.
	start func() (pid func() int, err error)
	stop  func() error
}

// assigned is what came of one burst of Services.
type assigned struct {
	allocation.Outcome
	services int
	writes   allocation.Writes
	// cpu is the processor time, in seconds, and peak the memory, in MiB, of the process that worked.
	cpu, peak float64
}

// perService is how many writes of all resources, or of some, there were for each Service.
func (a assigned) perService(resources ...string) float64 {
	sum := a.writes.All()
	if len(resources) > 0 {
		sum = 0
		for _, resource := range resources {
			sum += a.writes[resource]
		}
	}
	return float64(sum) / float64(a.services)
}

// besideMetalLB lets MetalLB and Portcullis give the same Services addresses, in turns: never do both run. In a quick run,
// Portcullis is alone, as MetalLB takes minutes to compile.
func (b *bench) besideMetalLB() error {
	return b.on(0, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
		n, turns := b.of(1000, 50), b.of(3, 1)
		assigners, about := []assigner{s.portcullis()}, "A quick run leaves out MetalLB."
		if !b.quick {
			b.say("metallb: compiling MetalLB's controller")
			metallb, err := allocation.BuildMetalLB(b.ctx, s.ControlPlane, b.dir)
			if err != nil {
				return err
			}
			assigners = append(assigners, assigner{
				name: "MetalLB", class: allocation.MetalLBClass, user: allocation.MetalLBUser, pool: allocation.MetalLBPool,
				start: func() (func() int, error) { return metallb.PID, metallb.Start(b.ctx) }, stop: metallb.Stop,
			})
			about = fmt.Sprintf("MetalLB is the controller of version %s, without its webhook and without its speakers. "+
				"The Services, the API server and the clients are the same for both, which take turns: %d each. Medians.", metallb.Version, turns)
		}
		results := make([][]assigned, len(assigners))
		for turn := range turns {
			for i, a := range assigners {
				result, err := s.assign(a, "10.0.0.0/20", fmt.Sprintf("turn-%d-%d", turn, i), n)
				if err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
				results[i] = append(results[i], result)
			}
		}
		b.add(report.Section{
			Title: "Addresses of LoadBalancer Services, beside MetalLB",
			About: fmt.Sprintf("%d Services are created by %d clients at once, and get an address each from a pool of 4,096. "+
				"Portcullis runs as two replicas, of which one gives addresses and both answer admission requests. %s", n, crowd, about),
			Figures: beside(results),
		})
		return nil
	})
}

// whySlowCreates explains what the creates take.
const whySlowCreates = "each create waits for Portcullis' webhook, and the webhook of MetalLB is left out here"

// beside is how Portcullis, which comes first, compares with MetalLB, if that was measured.
func beside(results [][]assigned) []report.Figure {
	figure := func(name, unit string, of func(assigned) float64) report.Figure {
		f := report.Figure{Name: name, Unit: unit, Value: medianOf(results[0], of)}
		if len(results) > 1 {
			f = f.Against("MetalLB", medianOf(results[1], of))
		}
		return f
	}
	sooner := func(f report.Figure, why string) report.Figure {
		if len(results) > 1 {
			f = f.RatioAtMost(1, why)
		}
		return f
	}
	claims := "edgeclaims." + v1beta1.GroupName
	return []report.Figure{
		sooner(figure("last create to last address", "s", func(a assigned) float64 { return a.Waited.Seconds() }), ""),
		sooner(figure("first create to last address", "s", func(a assigned) float64 { return a.Total().Seconds() }), whySlowCreates),
		figure("all created", "s", func(a assigned) float64 { return a.Created.Seconds() }),
		figure("writes per Service, claims left out", "writes", func(a assigned) float64 { return a.perService() - a.perService(claims) }).
			AtMost(1.5, ""),
		figure("writes per Service", "writes", func(a assigned) float64 { return a.perService() }).AtMost(2.5, ""),
		figure("processor time", "s", func(a assigned) float64 { return a.cpu }),
		figure("most memory", "MiB", func(a assigned) float64 { return a.peak }),
	}
}

func medianOf(results []assigned, of func(assigned) float64) float64 {
	values := make([]float64, 0, len(results))
	for _, r := range results {
		values = append(values, of(r))
	}
	return median(values)
}

// portcullis is two replicas.
func (s *stage) portcullis() assigner {
	var running []*harness.Replica
	return assigner{
		name: "Portcullis", class: v1beta1.LoadBalancerClass, user: harness.User,
		pool: func(name, cidr string) client.Object {
			pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
			pool.Spec.Source, pool.Spec.Addresses = v1beta1.SourceAddresses, []string{cidr}
			return pool
		},
		start: func() (func() int, error) {
			for range 2 {
				r, err := s.StartReplica(s.b.ctx)
				if err != nil {
					return nil, err
				}
				running = append(running, r)
			}
			// The one that was started first leads: it asked for the lease first.
			return running[0].PID, nil
		},
		stop: func() error {
			var errs []error
			for _, r := range running {
				errs = append(errs, r.Terminate())
			}
			running = nil
			return errors.Join(errs...)
		},
	}
}

// assign starts an assigner, lets it serve a burst of Services from a pool, and stops it. Before that it has served one, so that
// it is known to work, and to lead.
func (s *stage) assign(a assigner, cidr, name string, n int) (result assigned, err error) {
	s.b.say("%s gives %d Services addresses of %s", a.name, n, cidr)
	pid, err := a.start()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	pool := a.pool(name, cidr)
	if err := s.Client.Create(s.b.ctx, pool); err != nil {
		return result, err
	}
	first := allocation.Burst{Name: name + "-first", Class: a.class, Services: 1, Users: 1}
	burst := allocation.Burst{Name: name, Class: a.class, Services: n, Users: crowd}
	if _, err := first.Run(s.b.ctx, s.Config()); err != nil {
		return result, err
	}
	before, err := s.silence(a.user)
	if err != nil {
		return result, err
	}
	worked := process.CPUSeconds(pid())
	if result.Outcome, err = burst.Run(s.b.ctx, s.Config()); err != nil {
		return result, err
	}
	after, err := s.silence(a.user)
	if err != nil {
		return result, err
	}
	result.services, result.writes = n, allocation.Granted(after[len(before):], a.user)
	result.cpu, result.peak = process.CPUSeconds(pid())-worked, process.Peak(pid())
	s.b.say("  %.2f s to create, %.2f s more to the last address, %v", result.Created.Seconds(), result.Waited.Seconds(), result.writes)
	if err := errors.Join(first.Clear(s.b.ctx, s.Client), burst.Clear(s.b.ctx, s.Client)); err != nil {
		return result, err
	}
	// Portcullis lets a pool go when nothing of it is in use.
	return result, s.until(func() (bool, error) {
		return client.IgnoreNotFound(s.Client.Delete(s.b.ctx, pool)) == nil, nil
	})
}

// silence waits until a user has written nothing for some seconds, and returns all that anybody wrote so far.
func (s *stage) silence(user string) (writes []controlplane.Write, err error) {
	const quiet = 4 * time.Second
	since, last := time.Now(), -1
	// Not all the time: the log is read from its beginning.
	err = s.untilEvery(200*time.Millisecond, func() (bool, error) {
		if writes, err = s.Writes(); err != nil {
			return false, err
		}
		if all := allocation.Granted(writes, user).All(); all != last {
			since, last = time.Now(), all
		}
		return time.Since(since) > quiet, nil
	})
	return writes, err
}
