package podtoip

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

type podOption func(*corev1.Pod)

// running is a Pod web-0 with the UID "one" on node-a.
func running(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "shop", "web-0", "one"
	pod.Spec.NodeName = "node-a"
	pod.Status.Phase = corev1.PodRunning
	for _, option := range options {
		option(pod)
	}
	return pod
}

func ips(addresses ...string) podOption {
	return func(p *corev1.Pod) {
		p.Status.PodIPs = nil
		for _, a := range addresses {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
		}
	}
}

func uid(uid types.UID) podOption           { return func(p *corev1.Pod) { p.UID = uid } }
func node(name string) podOption            { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
func phase(phase corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = phase } }
func onlyPodIP(address string) podOption    { return func(p *corev1.Pod) { p.Status.PodIP = address } }
func hostNetwork(p *corev1.Pod)             { p.Spec.HostNetwork = true }
func terminating(p *corev1.Pod)             { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func ready(status corev1.ConditionStatus) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: status},
		}
	}
}

func TestWanted(t *testing.T) {
	spec := func(addresses ...string) *v1beta1.PodToIPSpec {
		return &v1beta1.PodToIPSpec{PodName: "web-0", PodAddress: addresses[0], PodAddresses: addresses, NodeName: "node-a"}
	}
	onHost := spec("192.0.2.1")
	onHost.HostNetwork = true
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want *v1beta1.PodToIPSpec
	}{
		"no Pod":                      {nil, nil},
		"no IP yet":                   {running(), nil},
		"one IP":                      {running(ips("10.0.3.7")), spec("10.0.3.7")},
		"not running yet, but an IP":  {running(ips("10.0.3.7"), phase(corev1.PodPending)), spec("10.0.3.7")},
		"its node is out of reach":    {running(ips("10.0.3.7"), phase(corev1.PodUnknown)), spec("10.0.3.7")},
		"dual stack":                  {running(ips("10.0.3.7", "fd00::7")), spec("10.0.3.7", "fd00::7")},
		"dual stack, IPv6 first":      {running(ips("fd00::7", "10.0.3.7")), spec("fd00::7", "10.0.3.7")},
		"IPv6 written in another way": {running(ips("FD00:0:0::0007")), spec("fd00::7")},
		"IPv4 written as IPv6":        {running(ips("::ffff:10.0.3.7")), spec("10.0.3.7")},
		"only the older field":        {running(onlyPodIP("10.0.3.7")), spec("10.0.3.7")},
		"an IP that is none":          {running(ips("soon")), nil},
		"host network":                {running(ips("192.0.2.1"), hostNetwork), onHost},
		"terminating":                 {running(ips("10.0.3.7"), terminating), nil},
		"completed":                   {running(ips("10.0.3.7"), phase(corev1.PodSucceeded)), nil},
		"failed or evicted":           {running(ips("10.0.3.7"), phase(corev1.PodFailed)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Wanted(c.pod)
			if ok != (c.want != nil) {
				t.Fatalf("Wanted = %+v, %v", got, ok)
			}
			if ok {
				if diff := cmp.Diff(*c.want, got); diff != "" {
					t.Errorf("Wanted (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestConcerns(t *testing.T) {
	before := running(ips("10.0.3.7"))
	for name, c := range map[string]struct {
		after *corev1.Pod
		want  bool
	}{
		"nothing":                  {running(ips("10.0.3.7")), false},
		"it is ready":              {running(ips("10.0.3.7"), ready(corev1.ConditionTrue)), false},
		"another IP":               {running(ips("10.0.3.8")), true},
		"a second IP":              {running(ips("10.0.3.7", "fd00::7")), true},
		"no IP":                    {running(), true},
		"another node":             {running(ips("10.0.3.7"), node("node-b")), true},
		"terminating":              {running(ips("10.0.3.7"), terminating), true},
		"finished":                 {running(ips("10.0.3.7"), phase(corev1.PodSucceeded)), true},
		"another Pod, the same IP": {running(ips("10.0.3.7"), uid("two")), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Concerns(before, c.after); got != c.want {
				t.Errorf("Concerns = %v, want %v", got, c.want)
			}
		})
	}
	if Concerns(running(ips("10.0.3.7"), terminating), running(ips("10.0.3.7"), terminating, phase(corev1.PodSucceeded))) {
		t.Error("the end of a terminating Pod concerns its PodToIP, which is gone already")
	}
}

type entryOption func(*v1beta1.PodToIP)

// entry is the PodToIP of running(ips("10.0.3.7")).
func entry(options ...entryOption) *v1beta1.PodToIP {
	p := &v1beta1.PodToIP{}
	p.Namespace, p.Name, p.UID = "shop", "web-0", "entry"
	p.Spec, _ = Wanted(running(ips("10.0.3.7")))
	owner("one")(p)
	for _, option := range options {
		option(p)
	}
	return p
}

func owner(uids ...types.UID) entryOption {
	return func(p *v1beta1.PodToIP) {
		p.OwnerReferences = nil
		for _, uid := range uids {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: uid})
		}
	}
}

func TestPlan(t *testing.T) {
	pod, moved := running(ips("10.0.3.7")), running(ips("10.0.3.8"))
	successor, sameIP := running(ips("10.0.3.9"), uid("two")), running(ips("10.0.3.7"), uid("two"))
	wanted := func(p *corev1.Pod) *v1beta1.PodToIPSpec { spec, _ := Wanted(p); return &spec }
	apply := Change{Apply: wanted(pod), Owner: "one"}
	remove := Change{Delete: "entry"}
	replace := func(by *corev1.Pod) Change { return Change{Delete: "entry", Apply: wanted(by), Owner: "two"} }
	type spec = v1beta1.PodToIPSpec
	edited := func(edit func(*spec)) *v1beta1.PodToIP {
		return entry(func(p *v1beta1.PodToIP) { edit(&p.Spec) })
	}
	twoIPs := edited(func(s *spec) { s.PodAddresses = []string{s.PodAddress, "fd00::1"} })
	vanishing := entry(func(p *v1beta1.PodToIP) { p.DeletionTimestamp = &metav1.Time{} })
	for name, c := range map[string]struct {
		current *v1beta1.PodToIP
		pod     *corev1.Pod
		bare    bool // the namespace is not covered
		want    Change
	}{
		"nothing there":                     {},
		"a Pod without an IP":               {pod: running()},
		"a new Pod":                         {pod: pod, want: apply},
		"a new Pod, not covered":            {pod: pod, bare: true},
		"all is well":                       {current: entry(), pod: pod},
		"the namespace is not covered":      {current: entry(), pod: pod, bare: true, want: remove},
		"the Pod has vanished":              {current: entry(), want: remove},
		"the Pod terminates":                {current: entry(), pod: running(ips("10.0.3.7"), terminating), want: remove},
		"the Pod has finished":              {current: entry(), pod: running(ips("10.0.3.7"), phase(corev1.PodSucceeded)), want: remove},
		"the Pod has lost its IP":           {current: entry(), pod: running(), want: remove},
		"the Pod has another IP":            {current: entry(), pod: moved, want: Change{Apply: wanted(moved), Owner: "one"}},
		"made by hand for nobody":           {current: entry(owner()), want: remove},
		"its IP was edited":                 {current: edited(func(s *spec) { s.PodAddress = "10.0.0.1" }), pod: pod, want: apply},
		"its IPs were edited":               {current: twoIPs, pod: pod, want: apply},
		"its node was edited":               {current: edited(func(s *spec) { s.NodeName = "" }), pod: pod, want: apply},
		"its host network was edited":       {current: edited(func(s *spec) { s.HostNetwork = true }), pod: pod, want: apply},
		"its owner was taken out":           {current: entry(owner()), pod: pod, want: apply},
		"another owner was put in":          {current: entry(owner("one", "other")), pod: pod},
		"it is about to vanish":             {current: vanishing, pod: successor},
		"a successor without an IP":         {current: entry(), pod: running(uid("two")), want: remove},
		"a successor with another IP":       {current: entry(), pod: successor, want: replace(successor)},
		"a successor with the same IP":      {current: entry(), pod: sameIP, want: replace(sameIP)},
		"a successor in a namespace let go": {current: entry(), pod: successor, bare: true, want: remove},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(c.current, c.pod, !c.bare)
			if diff := cmp.Diff(c.want, got); diff != "" || !got.Equal(c.want) {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
			if got.IsNone() != c.want.Equal(Change{}) {
				t.Errorf("IsNone = %v of %+v", got.IsNone(), got)
			}
		})
	}
}

func TestChangeEqual(t *testing.T) {
	spec := func(address string) *v1beta1.PodToIPSpec { return &v1beta1.PodToIPSpec{PodAddress: address} }
	different := []Change{
		{}, {Delete: "a"}, {Delete: "b"}, {Apply: spec("10.0.0.1"), Owner: "a"}, {Apply: spec("10.0.0.2"), Owner: "a"},
		{Apply: spec("10.0.0.1"), Owner: "b"}, {Delete: "a", Apply: spec("10.0.0.1"), Owner: "a"},
	}
	for i, a := range different {
		for j, b := range different {
			if b.Apply != nil {
				b.Apply = b.Apply.DeepCopy()
			}
			if a.Equal(b) != (i == j) {
				t.Errorf("%+v equals %+v: %v", a, b, a.Equal(b))
			}
		}
	}
}
