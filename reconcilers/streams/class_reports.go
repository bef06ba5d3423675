package streams

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// classReports put together what became of the ConfigMaps of each class and of its Service, which are written apart. The
// status of a class tells of both, so it is written when both are known: a process that has just begun does not take back what
// an earlier one has said.
type classReports struct {
	mu    sync.Mutex
	known map[string]classParts
}

// classParts is what is known of a class of that UID, nil for nothing yet.
type classParts struct {
	uid                 types.UID
	configMaps, service *classReport
}

func newClassReports() *classReports { return &classReports{known: map[string]classParts{}} }

// ofConfigMaps notes what became of the ConfigMaps of a class. It returns what became of the class; complete is false while
// the rest is not known.
func (r *classReports) ofConfigMaps(class *v1beta1.StreamIngressClass, report classReport) (whole classReport, complete bool) {
	return r.note(class, func(p *classParts) { p.configMaps = &report })
}

// ofService is the same for the Service.
func (r *classReports) ofService(class *v1beta1.StreamIngressClass, report classReport) (whole classReport, complete bool) {
	return r.note(class, func(p *classParts) { p.service = &report })
}

func (r *classReports) note(class *v1beta1.StreamIngressClass, part func(*classParts)) (whole classReport, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.known[class.Name]
	if p.uid != class.UID {
		p = classParts{uid: class.UID}
	}
	part(&p)
	r.known[class.Name] = p
	if p.configMaps == nil || p.service == nil {
		return whole, false
	}
	whole = *p.service
	whole.configMapError = p.configMaps.configMapError
	whole.refused = slices.Concat(p.configMaps.refused, p.service.refused)
	slices.SortStableFunc(whole.refused, compareRefused)
	return whole, true
}

// forget drops what is known of a class.
func (r *classReports) forget(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, class)
}
