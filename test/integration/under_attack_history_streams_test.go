package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// streamHistory starts a history of the streams of h and of their claims. See mustHold.
func streamHistory(t *testing.T, h *harness.Harness) *history {
	t.Helper()
	return newHistory(t, h, func() moment {
		return &streamMoment{streams: map[types.NamespacedName]*v1beta1.StreamIngress{}, claims: map[string]*v1beta1.EdgeClaim{}}
	}, &v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{})
}

// streamMoment is the streams and claims of one version. Something is wrong with a stream that is stored without holding
// the claim on the port that it asks for. As a claim has one holder, that says too that no two streams ever had the same
// port.
type streamMoment struct {
	streams map[types.NamespacedName]*v1beta1.StreamIngress
	claims  map[string]*v1beta1.EdgeClaim
}

func (m *streamMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.StreamIngress:
		key := client.ObjectKeyFromObject(stored)
		if m.streams[key] = stored; e.gone {
			delete(m.streams, key)
		}
		return []types.NamespacedName{key}
	case *v1beta1.EdgeClaim:
		concerned := []types.NamespacedName{claim.HolderOf(stored).Key()}
		if before := m.claims[stored.Name]; before != nil {
			concerned = append(concerned, claim.HolderOf(before).Key())
		}
		if m.claims[stored.Name] = stored; e.gone {
			delete(m.claims, stored.Name)
		}
		return concerned
	default:
		return nil
	}
}

func (m *streamMoment) everybody() []types.NamespacedName {
	return slices.Collect(maps.Keys(m.streams))
}

// check says whether a stream, if it is stored, holds what it asks for.
func (m *streamMoment) check(key types.NamespacedName) error {
	s := m.streams[key]
	if s == nil {
		return nil
	}
	holder := claim.StreamHolder(key.Namespace, key.Name)
	if s.Spec.Listen == nil {
		for _, c := range m.claims {
			at, err := claim.Parse(c.Name)
			if err == nil && claim.HolderOf(c) == holder && at.Class() == s.Spec.ClassName && at.Protocol() == s.ProtocolOrDefault() {
				return nil
			}
		}
		return fmt.Errorf("%s is stored, asks for any port, and holds none", key)
	}
	name := asked(s)
	switch c := m.claims[name]; {
	case c == nil:
		return fmt.Errorf("%s is stored, and nobody holds %s", key, name)
	case claim.HolderOf(c) != holder:
		return fmt.Errorf("%s is stored, and %s holds %s", key, c.Spec.HeldBy, name)
	default:
		return nil
	}
}

// around tells of the stream and its ports.
func (m *streamMoment) around(events []happening, i int, key types.NamespacedName) string {
	const enough = 12
	ports := map[string]bool{}
	for _, e := range events[:i+1] {
		if s, ok := e.stored.(*v1beta1.StreamIngress); ok && client.ObjectKeyFromObject(s) == key {
			ports[asked(s)] = true
		}
	}
	var lines []string
	for _, e := range events[:i+1] {
		verb := "stored"
		if e.gone {
			verb = "deleted"
		}
		switch o := e.stored.(type) {
		case *v1beta1.StreamIngress:
			if ports[asked(o)] {
				lines = append(lines, fmt.Sprintf("  %d stream %s %s, for %s, uid %.8s, generation %d",
					e.version, client.ObjectKeyFromObject(o), verb, asked(o), o.UID, o.Generation))
			}
		case *v1beta1.EdgeClaim:
			if ports[o.Name] {
				lines = append(lines, fmt.Sprintf("  %d claim %s %s, of %s, uid %.8s, generation %d",
					e.version, o.Name, verb, o.Spec.HeldBy, o.Spec.Holder.UID, o.Spec.Holder.Generation))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// asked is the name of the claim that a stream needs, empty when it asks for any port.
func asked(s *v1beta1.StreamIngress) string {
	if s.Spec.Listen == nil {
		return ""
	}
	return claim.Stream(s.Spec.ClassName, s.ProtocolOrDefault(), *s.Spec.Listen).Name()
}
