package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// expected is what has to stand on an edge, computed from its StreamIngresses alone.
type expected struct {
	// holders are the streams that have a port, by the name of its claim.
	holders map[string]*v1beta1.StreamIngress
	// refused are the streams that somebody else was faster than.
	refused []*v1beta1.StreamIngress
	// foreign are the entries of others, by port.
	foreign map[string]string
	// wrong is what can't be right, whatever else stands.
	wrong []error
}

// isExact waits until everything of the edge is exactly as its StreamIngresses want it: claims, ConfigMaps, the ports
// of the Service, and the status of every stream. Of several streams that ask for one port, exactly one has it. foreign
// are the entries that others have made in the ConfigMap for TCP, each as "port=entry".
func (e *edge) isExact(foreign ...string) {
	e.t.Helper()
	e.eventually("edge "+e.class.Name+" to be exact", func() error { return e.exactly(foreign...) })
}

// exactly says what is not as it should be, nil when everything is.
func (e *edge) exactly(foreign ...string) error {
	streams := &v1beta1.StreamIngressList{}
	if err := e.Client.List(e.t.Context(), streams); err != nil {
		return err
	}
	want := &expected{holders: map[string]*v1beta1.StreamIngress{}, foreign: map[string]string{}}
	for _, entry := range foreign {
		port, value, _ := strings.Cut(entry, "=")
		want.foreign[port] = value
	}
	for i := range streams.Items {
		if s := &streams.Items[i]; s.Spec.ClassName == e.class.Name {
			want.add(s)
		}
	}
	for _, s := range want.refused {
		if want.holders[asked(s)] == nil {
			want.wrong = append(want.wrong, fmt.Errorf("%s/%s is refused, and nobody else has its port", s.Namespace, s.Name))
		}
	}
	return errors.Join(errors.Join(want.wrong...), e.claimsAre(want), e.entriesAre(want), e.portsAre(want))
}

// add judges one stream by its status, and expects what follows from it.
func (x *expected) add(s *v1beta1.StreamIngress) {
	fail := func(format string, args ...any) {
		x.wrong = append(x.wrong, fmt.Errorf("%s/%s: %w", s.Namespace, s.Name, fmt.Errorf(format, args...)))
	}
	if s.Status.ObservedGeneration != s.Generation {
		fail("the status is of generation %d, the spec of %d", s.Status.ObservedGeneration, s.Generation)
		return
	}
	accepted := condition(s.Status.Conditions, v1beta1.ConditionAccepted)
	programmed := condition(s.Status.Conditions, v1beta1.ConditionProgrammed)
	switch accepted {
	case "False PortConflict":
		x.refused = append(x.refused, s)
		if programmed != "False NotAccepted" {
			fail("it is refused, and its condition Programmed is %s", programmed)
		}
		return
	case "True Accepted":
	default:
		fail("its condition Accepted is %q", accepted)
		return
	}
	if programmed != "True Programmed" {
		fail("its condition Programmed is %q", programmed)
	}
	if s.Spec.Listen != nil && *s.Spec.Listen != s.Status.Listen {
		fail("it asks for %d, and its status says %d", *s.Spec.Listen, s.Status.Listen)
	}
	name := claim.Stream(s.Spec.ClassName, s.ProtocolOrDefault(), s.Status.Listen).Name()
	if other := x.holders[name]; other != nil {
		fail("its status says that it has %s, and so does that of %s/%s", name, other.Namespace, other.Name)
	}
	x.holders[name] = s
}

// claimsAre compares the ledger. Claims of ConfigMaps and Services are for what is foreign.
func (e *edge) claimsAre(want *expected) error {
	claims := &v1beta1.EdgeClaimList{}
	if err := e.Client.List(e.t.Context(), claims); err != nil {
		return err
	}
	held, wanted := map[string]string{}, map[string]string{}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Spec.Scope == claim.StreamScope(e.class.Name) && claim.HolderOf(c).IsStream() {
			held[c.Name] = c.Spec.HeldBy
		}
	}
	for name, s := range want.holders {
		wanted[name] = claim.StreamHolder(s.Namespace, s.Name).String()
	}
	return same("the ledger", held, wanted)
}

// entriesAre compares both ConfigMaps.
func (e *edge) entriesAre(want *expected) error {
	var errs []error
	for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
		ref := e.class.ConfigMap(protocol)
		cm := configMap(ref.Namespace+"/"+ref.Name, nil)
		if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(cm), cm); client.IgnoreNotFound(err) != nil {
			return err
		}
		wanted := map[string]string{}
		if protocol == TCP {
			maps.Copy(wanted, want.foreign)
		}
		for _, s := range want.holders {
			if s.ProtocolOrDefault() == protocol {
				wanted[fmt.Sprint(s.Status.Listen)] = fmt.Sprintf("%s/%s:%s", s.UpstreamNamespace(), s.UpstreamService(), s.Spec.Upstream.Port.String())
			}
		}
		errs = append(errs, same("ConfigMap "+ref.Name, cm.Data, wanted))
	}
	return errors.Join(errs...)
}

// portsAre compares the ports of the Service, which has 80 and 443 of its own.
func (e *edge) portsAre(want *expected) error {
	if e.class.Spec.Service == nil {
		return nil
	}
	svc := e.proxy()
	if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
		return err
	}
	open, wanted := map[string]string{}, map[string]string{"TCP/80": "http", "TCP/443": "https"}
	for _, p := range svc.Spec.Ports {
		open[fmt.Sprintf("%s/%d", p.Protocol, p.Port)] = p.Name
	}
	for _, s := range want.holders {
		protocol := corev1.Protocol(s.ProtocolOrDefault())
		wanted[fmt.Sprintf("%s/%d", protocol, s.Status.Listen)] = fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), s.Status.Listen)
	}
	return same("Service "+svc.Name, open, wanted)
}

// same compares two maps, and tells the first differences.
func same(what string, got, want map[string]string) error {
	keys := map[string]bool{}
	for key, value := range got {
		if want[key] != value {
			keys[key] = true
		}
	}
	for key, value := range want {
		if got[key] != value {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return nil
	}
	const enough = 5
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys))[:min(enough, len(keys))] {
		errs = append(errs, fmt.Errorf("%s: %s is %q, want %q", what, key, got[key], want[key]))
	}
	return fmt.Errorf("%s differs in %d of %d: %w", what, len(keys), len(want), errors.Join(errs...))
}
