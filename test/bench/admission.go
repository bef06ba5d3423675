package main

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/bench/plot"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// replicas is how many answer admission requests.
const replicas = 2

// admission measures creates that are told yes and creates that are told no, against the same creates with something else
// in the place of Portcullis. Nobody reconciles meanwhile: what comes after the answer is measured elsewhere.
func (b *bench) admission() error {
	return b.on(1, harness.Options{}, func(s *stage) error {
		const class = "admission"
		if err := s.class(class, true); err != nil {
			return err
		}
		if err := s.Replicas[0].Terminate(); err != nil {
			return err
		}
		if err := s.lead(); err != nil {
			return err
		}
		for range replicas {
			if _, err := s.StartReplica(b.ctx); err != nil {
				return err
			}
		}
		end, err := s.offerAlternatives()
		if err != nil {
			return err
		}
		defer end()
		if err := s.incumbent(class); err != nil {
			return err
		}
		return s.compareAdmission(class)
	})
}

// heldPort is held by a stream.
const heldPort = 1

// incumbent makes the stream that holds heldPort.
func (s *stage) incumbent(class string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "incumbent"}}
	if err := s.Client.Create(s.b.ctx, ns); err != nil {
		return err
	}
	return s.Client.Create(s.b.ctx, stream(ns.Name, "incumbent", class, heldPort))
}

// variant is one way to be admitted.
type variant struct {
	name string
	// by is the alternative that judges, empty for Portcullis.
	by      string
	refused bool
	took    sample.Sample
}

// check says whether the answer is the one that is meant.
func (v *variant) check(err error) error {
	switch {
	case !v.refused:
		return err
	case err == nil:
		return errors.New("a held port was given to another stream")
	case apierrors.IsInvalid(err):
		return nil
	default:
		return err
	}
}

// compareAdmission measures with one client and with many.
func (s *stage) compareAdmission(class string) error {
	section := report.Section{
		Title: "Admission, end to end",
		About: fmt.Sprintf("Creates of a StreamIngress by 1, 32 and 150 clients: told yes by Portcullis, which writes the claim into the "+
			"ledger; told no, since the port is held; and the same create in namespaces where nothing judges it, where a webhook on an equal "+
			"server says yes to everything, or where a ValidatingAdmissionPolicy checks one field. The kinds take turns. There are %d webhook "+
			"servers of either kind, and no replica leads, so that nothing is programmed meanwhile.", replicas),
	}
	chart := plot.Chart{Name: "admission", Title: "Create, median", X: "clients", Y: "ms", LogX: true, LogY: true}
	counts := map[int]int{1: s.b.of(400, 20), 32: s.b.of(640, 128), 150: s.b.of(1500, 300)}
	for _, users := range []int{1, 32, 150} {
		s.b.say("admission: %d creates of each kind by %d client(s)", counts[users], users)
		variants, err := s.admit(class, users, counts[users])
		if err != nil {
			return err
		}
		section.Figures = append(section.Figures, admissionFigures(users, variants)...)
		for i, v := range variants {
			if len(chart.Series) <= i {
				chart.Series = append(chart.Series, plot.Line{Name: v.name})
			}
			chart.Series[i].Points = append(chart.Series[i].Points, plot.Point{X: float64(users), Y: v.took.At(50)})
		}
	}
	section.Plots = []plot.Chart{chart}
	s.b.add(section)
	return nil
}

// admit measures n requests of each kind by a number of users at once. The kinds take turns, so that whatever else the
// machine does is shared by all of them.
func (s *stage) admit(class string, users, n int) ([]*variant, error) {
	variants := []*variant{
		{name: "told yes"}, {name: "told no", refused: true},
		{name: "no webhook", by: byNothing}, {name: "empty webhook", by: byEmptyWebhook}, {name: "policy", by: byPolicy},
	}
	clients := make([]client.Client, users)
	for i := range clients {
		var err error
		if clients[i], err = s.user(); err != nil {
			return nil, err
		}
	}
	for i, v := range variants {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("admission-%d-%d", users, i)}}
		if v.by != "" {
			ns.Labels = map[string]string{admissionLabel: v.by}
		}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return nil, err
		}
	}
	turns := s.b.of(10, 2)
	for turn := range turns {
		for i, v := range variants {
			if err := v.took.Measure(users, n/turns, func(worker, j int) error {
				j += turn * n / turns
				port := heldPort
				if !v.refused {
					port = 2000 + 10000*portBlock(users) + j
				}
				err := clients[worker].Create(s.b.ctx, stream(fmt.Sprintf("admission-%d-%d", users, i), fmt.Sprintf("stream-%d", j), class, port))
				return v.check(err)
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return variants, nil
}

// portBlock tells the ports of one number of users from those of another.
func portBlock(users int) int { return map[int]int{1: 0, 32: 1, 150: 2}[users] }

const (
	// whySlowYes explains what being told yes takes.
	whySlowYes = "a yes is two writes, one after the other: the webhook writes the claim, and then the API server stores the stream"
	// whySlowNo explains what being told no takes.
	whySlowNo = "a refusal is more work than an empty yes: what the cache says is not enough for a no, so that the claim is read as it is " +
		"stored, and beside it whether its holder hands it over; and the answer names the holder of the port and the nearest free ones"
)

// admissionFigures are the figures of one number of users.
func admissionFigures(users int, variants []*variant) []report.Figure {
	yes, no, nothing, empty, policy := variants[0], variants[1], variants[2], variants[3], variants[4]
	clients := fmt.Sprintf("%d clients", users)
	if users == 1 {
		clients = "1 client"
	}
	figure := func(v *variant, p float64) report.Figure {
		return report.Figure{Name: fmt.Sprintf("%s, %s, p%.0f", clients, v.name, p), Value: v.took.At(p), Unit: "ms"}
	}
	figures := []report.Figure{
		figure(yes, 50).Against(empty.name, empty.took.At(50)).RatioAtMost(2.2, whySlowYes),
		figure(yes, 99).Against(empty.name, empty.took.At(99)),
		figure(no, 50).Against(empty.name, empty.took.At(50)).RatioAtMost(1.3, whySlowNo),
		figure(no, 99).Against(empty.name, empty.took.At(99)),
	}
	for _, p := range []float64{50, 99} {
		figures = append(figures, figure(nothing, p))
		for _, v := range []*variant{empty, policy} {
			figures = append(figures, figure(v, p).Against(nothing.name, nothing.took.At(p)))
		}
		for _, v := range []*variant{yes, no} {
			added := figure(v, p)
			added.Name, added.Value = added.Name+", added to no webhook", added.Value-nothing.took.At(p)
			figures = append(figures, added)
		}
	}
	return append(figures, report.Figure{
		Name: clients + ", creates per second, told yes", Value: yes.took.Rate(), Unit: "1/s",
	}.Against(empty.name, empty.took.Rate()))
}
