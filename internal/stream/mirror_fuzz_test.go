package stream

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// dice chooses by the bytes that are left, the first by none.
type dice struct{ bytes []byte }

func (d *dice) roll(sides int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	rolled := int(d.bytes[0]) % sides
	d.bytes = d.bytes[1:]
	return rolled
}

func pick[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

// endpoint is one that refers to a Pod, or to nothing, or to what there is not, with any addresses; raw is one of them.
func (d *dice) endpoint(raw string) (e discoveryv1.Endpoint) {
	for range d.roll(4) {
		e.Addresses = append(e.Addresses, pick(d, "10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.10", "10.0.1.7", "2001:db8::7", "2001:DB8::7",
			"::ffff:10.0.0.7", "2001:db8::7%eth0", "010.0.0.7", "db", raw))
	}
	if d.roll(8) > 0 {
		e.TargetRef = &corev1.ObjectReference{
			Kind: pick(d, "Pod", "Pod", "Node", ""), Namespace: pick(d, "shop", "", "team"),
			Name: pick(d, "db-0", "db-1", "done", "failed", "ending", "new", "gone", raw),
			UID:  types.UID(pick(d, "", "db-0", "db-1", "done", "failed", "ending", raw)),
		}
	}
	yes, no := true, false
	e.Conditions = discoveryv1.EndpointConditions{
		Ready: pick(d, nil, &yes, &no), Serving: pick(d, nil, &yes, &no), Terminating: pick(d, nil, &yes, &no),
	}
	e.NodeName, e.Zone = pick(d, nil, new("node-1")), pick(d, nil, new("zone-1"))
	e.Hints = pick(d, nil, &discoveryv1.EndpointHints{}, &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-1"}}})
	return e
}

// slices are some that may have the port.
func (d *dice) slices(raw string) (all []*discoveryv1.EndpointSlice) {
	for i := 0; len(d.bytes) > 0 && i < 8; i++ {
		s := sliceOf("db-"+string(rune('a'+i)), pick(d, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN, ""))
		s.Ports[1].Port = pick(d, new(int32(15432)), new(int32(1)), new(int32(70000)), nil)
		for range d.roll(8) {
			s.Endpoints = append(s.Endpoints, d.endpoint(raw))
		}
		all = append(all, pick(d, s, s, s, nil))
	}
	return all
}

// isLive says whether a Pod of shop that is not over has an address.
func isLive(ip netip.Addr) bool {
	for _, pod := range podsOfShop {
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Namespace == "shop" && !over && slices.Contains(pod.Status.PodIPs, corev1.PodIP{IP: ip.String()}) {
			return true
		}
	}
	return false
}

// FuzzMirror holds that where nothing outside may be led to, every address is that of a live Pod of the upstream's namespace; that
// all that is written can be read, and every endpoint is either written or left out; and that it is the same in any order.
func FuzzMirror(f *testing.F) {
	f.Add([]byte{0, 0, 3, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}, "10.96.0.1")
	f.Add([]byte{1, 1, 7, 3, 5, 6, 7, 0, 0, 0, 1, 2, 8, 11, 3, 1, 1, 4, 5, 2, 2, 2, 1, 1, 2}, "fe80::1%eth0")
	f.Add([]byte{2, 0, 2, 3, 11, 11, 11, 0, 3}, "")
	f.Fuzz(func(t *testing.T, data []byte, raw string) {
		from := sourceOf((&dice{data}).slices(raw)...)
		for _, why := range []string{"refused", ""} {
			from.Outside = func(string) string { return why }
			m := Mirror("sti", PortKey{Protocol: v1beta1.TCP, Port: 5432}, from)
			holds(t, m, why != "")
			again := from
			again.Slices = nil
			for _, s := range slices.Backward(from.Slices) {
				s = s.DeepCopy()
				if s != nil {
					slices.Reverse(s.Endpoints)
				}
				again.Slices = append(again.Slices, s)
			}
			other := Mirror("sti", PortKey{Port: 5432}, again)
			if diff := cmp.Diff(m, other, cmp.AllowUnexported(Mirrored{})); diff != "" || m.Text() != other.Text() {
				t.Error("in another order it is another one", diff)
			}
		}
	})
}

// holds says what of the above does not.
func holds(t *testing.T, m Mirrored, inside bool) {
	written := 0
	for i := range m.Slices {
		s := &m.Slices[i]
		written += len(s.Endpoints)
		if len(s.Endpoints) == 0 || len(s.Ports) != 1 || SliceDigest(s.DeepCopy()) != SliceDigest(s) {
			t.Errorf("%s is not as it should be: %v", s.Name, s)
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) == 0 || e.TargetRef != nil {
				t.Errorf("an endpoint is not as it should be: %v", e)
			}
			for _, address := range e.Addresses {
				ip, err := netip.ParseAddr(address)
				if err != nil || ip.Zone() != "" || ip.Is4In6() || ip.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) {
					t.Errorf("%s is among addresses of %s", address, s.AddressType)
				}
				if inside && !isLive(ip) {
					t.Errorf("%s is of no live Pod", address)
				}
			}
		}
	}
	if written+m.LeftOut != m.all || len(m.Text()) > maxMirrorText || (m.Text() == "") != (m.LeftOut == 0) {
		t.Errorf("%d are written, %d of %d left out: %q", written, m.LeftOut, m.all, m.Text())
	}
}
