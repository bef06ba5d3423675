//go:build monitoring

package monitoring

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/monitoring/board"
)

var (
	picture = flag.String("picture", "", "where to draw the dashboard, after things have happened for a while")
	playFor = flag.Duration("for", 0, "how long things happen")
)

// play lets things happen, sometimes more and sometimes fewer: what users ask for becomes more, and less again. In between, nobody answers
// for some seconds.
func (s *scenario) play(ctx context.Context, lasts time.Duration) {
	s.t.Helper()
	begun := time.Now()
	kept, heard := 0, true
	for elapsed := time.Duration(0); elapsed < lasts && ctx.Err() == nil; elapsed = time.Since(begun) {
		if heard && elapsed > lasts*2/5 {
			s.silence(ctx)
			heard = false
		}
		if err := s.goOn(); err != nil {
			s.t.Fatal(err)
		}
		if s.round%2 == 0 {
			var err error
			if elapsed < lasts*3/5 {
				kept++
				err = s.keep(kept)
			} else if kept > 0 {
				err = s.release(kept)
				kept--
			}
			if err != nil {
				s.t.Fatal(err)
			}
		}
		pause := 200 * time.Millisecond
		if elapsed/(20*time.Second)%2 == 1 {
			pause = time.Second
		}
		time.Sleep(pause)
	}
}

// silence freezes all replicas, asks in vain, and thaws them.
func (s *scenario) silence(ctx context.Context) {
	s.t.Helper()
	for _, r := range s.Replicas {
		if err := r.Freeze(); err != nil {
			s.t.Fatal(err)
		}
	}
	var err error
	for begun := time.Now(); err == nil && time.Since(begun) < 8*time.Second; time.Sleep(200 * time.Millisecond) {
		err = s.unheard()
	}
	for _, r := range s.Replicas {
		err = errors.Join(err, r.Thaw(), r.AwaitReady(ctx))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "an answer again", s.goOn)
}

// keepsakes are a stream, a host and an address that stay for a while.
func (s *scenario) keepsakes(n int) []client.Object {
	name := fmt.Sprintf("kept-%d", n)
	stream := s.passing(0)[0]
	site, balancer := s.web("shop"), s.web("shop")
	site.Annotations[v1beta1.AnnotationHTTP] = "class=nginx, host=" + name + ".example.com"
	balancer.Annotations = nil
	balancer.Spec.Type, balancer.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	for suffix, object := range map[string]client.Object{"": stream, "-site": site, "-balancer": balancer} {
		object.SetName(name + suffix)
	}
	return []client.Object{stream, site, balancer}
}

func (s *scenario) keep(n int) error {
	for _, object := range s.keepsakes(n) {
		if err := s.Client.Create(s.t.Context(), object); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) release(n int) error {
	for _, object := range s.keepsakes(n) {
		if err := s.Client.Delete(s.t.Context(), object); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the dashboard from a time on until now, with what its own queries give, and keeps the picture where that is asked for. It is
// an error when a panel has no values; those of requests that nobody answered may have none.
func (p *prometheus) draw(panels []board.Panel, begun time.Time) error {
	ended := time.Now()
	step := max(time.Second, (ended.Sub(begun) / 120).Truncate(time.Second))
	for i := range panels {
		panels[i].Series = nil
		for _, target := range panels[i].Targets {
			series, err := p.series(target, begun, ended, step)
			if err != nil {
				return fmt.Errorf("%s: %w", panels[i].Title, err)
			}
			panels[i].Series = append(panels[i].Series, series...)
		}
		if title := panels[i].Title; panels[i].Type != "row" && len(panels[i].Series) == 0 && !strings.HasPrefix(title, "No answer") {
			return fmt.Errorf("%s has no values", title)
		}
	}
	title := fmt.Sprintf("The Grafana dashboard of Portcullis over %d minutes.", int(ended.Sub(begun).Minutes()))
	svg := board.Draw(title, panels, ended.Sub(begun), step)
	if *picture == "" {
		return nil
	}
	return os.WriteFile(*picture, svg, 0o644) //nolint:gosec // for everybody to read
}

// series are the curves of a query, by name.
func (p *prometheus) series(target board.Target, begun, ended time.Time, step time.Duration) (curves []board.Series, err error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Values [][2]any          `json:"values"`
		} `json:"result"`
	}
	unix := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }
	if err := p.get("query_range", url.Values{
		"query": {strings.ReplaceAll(target.Expr, "$__rate_interval", "15s")}, "start": {unix(begun)}, "end": {unix(ended)}, "step": {step.String()},
	}, &data); err != nil {
		return nil, err
	}
	named := map[string][]board.Point{}
	for _, result := range data.Result {
		var points []board.Point
		for _, value := range result.Values {
			at, _ := value[0].(float64)
			text, _ := value[1].(string)
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
				points = append(points, board.Point{At: time.Duration((at - float64(begun.UnixMilli())/1000) * float64(time.Second)), Value: v})
			}
		}
		if len(points) > 0 {
			named[target.Name(result.Metric)] = points
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		curves = append(curves, board.Series{Name: name, Points: named[name]})
	}
	return curves, nil
}
