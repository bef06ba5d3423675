package main

import (
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// tally is what the API server was asked to write by one user.
type tally struct {
	// granted are the writes that were granted, by resource; "status" are those of the status of anything.
	granted map[string]int
	// conflicts are the writes that were refused because somebody else had written in between.
	conflicts int
	// refused are the other writes that were refused, by resource.
	refused map[string]int
	// mostStatus is the most that the status of one object was written.
	mostStatus int
}

// ownNamespace is that of Portcullis. What is written there says who leads, and has nothing to do with users.
const ownNamespace = "portcullis-system"

// count counts what a user has written elsewhere than to ownNamespace.
func count(writes []controlplane.Write, user string) tally {
	t := tally{granted: map[string]int{}, refused: map[string]int{}}
	statuses := map[string]int{}
	for _, w := range writes {
		switch {
		case w.User != user || w.Namespace == ownNamespace:
		case w.Code == http.StatusConflict:
			t.conflicts++
		case w.Code >= http.StatusBadRequest:
			resource, _, _ := strings.Cut(w.Resource, ".")
			t.refused[resource]++
		default:
			resource, _, _ := strings.Cut(w.Resource, ".")
			if strings.HasSuffix(w.Resource, "/status") {
				key := w.Namespace + "/" + w.Name
				statuses[key]++
				t.mostStatus = max(t.mostStatus, statuses[key])
				resource = "status"
			}
			t.granted[resource]++
		}
	}
	return t
}

// since counts what a user has written after the first so many writes.
func (s *stage) since(before int, user string) (tally, error) {
	writes, err := s.Writes()
	if err != nil {
		return tally{}, err
	}
	return count(writes[before:], user), nil
}

// written is how many writes there were up to now.
func (s *stage) written() (int, error) {
	writes, err := s.Writes()
	return len(writes), err
}

// sentBytes is how many bytes all clients have sent to the API server to change ConfigMaps and Services.
func (s *stage) sentBytes() (float64, error) {
	return s.sum("apiserver_request_body_size_bytes_sum{", func(labels string) bool {
		return strings.Contains(labels, `resource="configmaps"`) || strings.Contains(labels, `resource="services"`)
	})
}

// sum adds up those values of a metric of the API server whose labels are of interest; metric ends with a brace.
func (s *stage) sum(metric string, counts func(labels string) bool) (float64, error) {
	config := s.Config()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	text, err := controlplane.Get(s.b.ctx, transport, config.Host+"/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, metric)
		if !found {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		if !counts(labels) {
			continue
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0, err
		}
		sum += number
	}
	return sum, nil
}
