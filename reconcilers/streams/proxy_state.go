package streams

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// proxyState is everything that the proxy of a class depends on, as it is now.
type proxyState struct {
	*proxy
	configMaps []configMap
	claims     map[claim.Coordinate]*v1beta1.EdgeClaim
	// behind are the points whose claims are others than these by now: see noteBehind.
	behind map[claim.Coordinate]bool
}

// configMap is the ConfigMap of one protocol.
type configMap struct {
	protocol v1beta1.Protocol
	ref      v1beta1.ObjectReference
	// object is nil where there is none.
	object  *corev1.ConfigMap
	current stream.Current
}

// gather reads the state of the proxy of a class.
func (b base) gather(ctx context.Context, class *v1beta1.StreamIngressClass) (*proxyState, error) {
	s := &proxyState{}
	for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
		ref := class.ConfigMap(protocol)
		if ref == nil {
			continue
		}
		cm := configMap{protocol: protocol, ref: *ref}
		var err error
		if cm.object, err = b.View.Targets.ConfigMap(ctx, *ref); err != nil {
			return nil, err
		}
		if cm.object != nil {
			if cm.current, err = b.View.Targets.Entries(cm.object); err != nil {
				return nil, err
			}
		}
		s.configMaps = append(s.configMaps, cm)
	}
	var err error
	if s.proxy, err = b.proxyOf(ctx, class); err != nil {
		return nil, err
	}
	s.claims, err = b.View.Claims.OfClass(ctx, class.Name)
	return s, err
}

// grantedStreams are the streams that hold the point at which they are to be open, by that point. A stream whose upstream namespace has
// withdrawn its consent keeps its claim, and is not among them; asked are the points of those, too.
func (b base) grantedStreams(
	ctx context.Context, s *proxyState,
) (granted map[claim.Coordinate]*v1beta1.StreamIngress, asked map[claim.Coordinate]bool, err error) {
	g, err := kube.Decide(ctx, b.View, func(f *kube.Facts) grants { return grantsOf(f, s) })
	return g.granted, g.asked, err
}

// grantedAt is the stream that holds a port of a class, is to be open there and may lead where it does, nil for none.
func (b base) grantedAt(ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate) (*v1beta1.StreamIngress, error) {
	c, err := b.View.Claim(ctx, at.Name())
	if err != nil || c == nil || !claim.HolderOf(c).IsStream() {
		return nil, err
	}
	var asks *v1beta1.StreamIngress
	si, err := kube.Decide(ctx, b.View, func(f *kube.Facts) *v1beta1.StreamIngress {
		holder, heir := claim.HolderOf(c), claim.HeirOf(c)
		if asks = f.Stream(holder.Key()); asks == nil || stream.Opens(asks, class.Name, f.Held(holder)) != at {
			asks = heirAt(f, at, heir)
		}
		if asks == nil || len(stream.Consent(f, asks, class)) > 0 {
			return nil
		}
		return asks
	})
	if err != nil || asks != nil {
		return si, err
	}
	behind, err := b.isBehind(ctx, c, at)
	if err == nil && behind {
		err = errBehind
	}
	return nil, err
}

// grants are what grantedStreams finds out.
type grants struct {
	granted map[claim.Coordinate]*v1beta1.StreamIngress
	asked   map[claim.Coordinate]bool
}

func grantsOf(f stream.Facts, s *proxyState) grants {
	held := map[claim.Holder][]claim.Coordinate{}
	for at, c := range s.claims {
		if h := claim.HolderOf(c); h.IsStream() {
			held[h] = append(held[h], at)
		}
	}
	g := grants{
		granted: make(map[claim.Coordinate]*v1beta1.StreamIngress, len(held)),
		asked:   make(map[claim.Coordinate]bool, len(held)),
	}
	for holder, points := range held {
		si := f.Stream(holder.Key())
		if si == nil {
			continue
		}
		at := stream.Opens(si, s.class.Name, points)
		if c := s.claims[at]; c == nil || claim.HolderOf(c) != holder {
			continue
		}
		g.grant(f, s.class, at, si)
	}
	for at, c := range s.claims {
		if si := heirAt(f, at, claim.HeirOf(c)); si != nil && !g.asked[at] {
			g.grant(f, s.class, at, si)
		}
	}
	return g
}

// grant notes who asks for a point, and has it if it may lead where it does.
func (g *grants) grant(f stream.Facts, class *v1beta1.StreamIngressClass, at claim.Coordinate, si *v1beta1.StreamIngress) {
	g.asked[at] = true
	if len(stream.Consent(f, si, class)) == 0 {
		g.granted[at] = si
	}
}

// wantedEntries are the entries that should stand in the ConfigMap of a protocol.
func (b base) wantedEntries(
	ctx context.Context, cm configMap, granted map[claim.Coordinate]*v1beta1.StreamIngress,
) (map[int32]stream.Entry, error) {
	wanted := map[int32]stream.Entry{}
	for at, si := range granted {
		if at.Protocol() != cm.protocol {
			continue
		}
		entry, ok, err := b.entryFor(ctx, si, cm.current.Data[stream.Key(at.Port())])
		if err != nil {
			return nil, err
		}
		if ok {
			wanted[at.Port()] = entry
		}
	}
	return wanted, nil
}

// entryFor is the entry of a stream; ok is false while the number of a named port can't be told, or while somebody
// else's Service has the name that an outside upstream needs.
func (b base) entryFor(ctx context.Context, si *v1beta1.StreamIngress, current string) (stream.Entry, bool, error) {
	svc, err := b.View.Service(ctx, types.NamespacedName{Namespace: si.UpstreamNamespace(), Name: si.UpstreamService()})
	if err != nil {
		return stream.Entry{}, false, err
	}
	if si.Outside() && svc != nil && !metav1.IsControlledBy(svc, si) {
		return stream.Entry{}, false, nil
	}
	entry, ok := stream.EntryFor(si, svc, current)
	return entry, ok, nil
}
