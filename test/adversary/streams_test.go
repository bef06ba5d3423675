package adversary

import (
	"fmt"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// ofStreams are what a tenant does to StreamIngresses.
var ofStreams = []kind{
	{"create StreamIngress", 12, createStream},
	{"patch StreamIngress port", 6, func(u *user, rng *rand.Rand) act {
		return merges(u, aStream(u, rng), fmt.Sprintf(`{"spec":{"listen":%s,"protocol":%q}}`, listenText(rng), someProtocol(rng)))
	}},
	{"move StreamIngress", 4, func(u *user, rng *rand.Rand) act {
		return merges(u, aStream(u, rng), fmt.Sprintf(`{"spec":{"className":%q}}`, pick(rng, className, directClassName)))
	}},
	{"patch StreamIngress upstream", 5, func(u *user, rng *rand.Rand) act {
		return merges(u, aStream(u, rng), upstreamText(rng))
	}},
	{"delete StreamIngress", 5, func(u *user, rng *rand.Rand) act { return deletes(u, aStream(u, rng)) }},
	{"finalizers of StreamIngress", 4, func(u *user, rng *rand.Rand) act { return merges(u, aStream(u, rng), finalizersText(rng)) }},
	{"managedFields of StreamIngress", 2, func(u *user, rng *rand.Rand) act { return merges(u, aStream(u, rng), disownText) }},
	{"marks on StreamIngress", 1, func(u *user, rng *rand.Rand) act { return merges(u, aStream(u, rng), marksText(rng)) }},
	{"flood of StreamIngress", 1, floodStream},
	{"recreate StreamIngress", 2, func(u *user, rng *rand.Rand) act {
		gone := aStream(u, rng)
		return then(deletes(u, gone), createStream(u, rng))
	}},
}

// aStream is one of a tenant's, by its name.
func aStream(u *user, rng *rand.Rand) *v1beta1.StreamIngress {
	return &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: fmt.Sprintf("s-%d", rng.IntN(4))}}
}

// somePort is a port that others want, too, or that the platform has; nil for any.
func somePort(rng *rand.Rand) *int32 {
	if rng.IntN(4) == 0 {
		return nil
	}
	return new(pick[int32](rng, 7002, 7003, 7004, 7006, 7000, 7005, 443, 8080))
}

func listenText(rng *rand.Rand) string {
	if port := somePort(rng); port != nil {
		return fmt.Sprint(*port)
	}
	return "null"
}

func someProtocol(rng *rand.Rand) v1beta1.Protocol {
	return pick(rng, v1beta1.TCP, v1beta1.TCP, v1beta1.TCP, v1beta1.UDP)
}

func createStream(u *user, rng *rand.Rand) act {
	si := aStream(u, rng)
	si.Spec.ClassName, si.Spec.Protocol, si.Spec.Listen = className, someProtocol(rng), somePort(rng)
	si.Spec.Upstream = v1beta1.StreamUpstream{Service: "lb-0", Port: intstr.FromInt(80)}
	switch rng.IntN(10) {
	case 0:
		si.Spec.IsService = new(false)
		si.Spec.Upstream = v1beta1.StreamUpstream{Host: "192.0.2.7", Port: intstr.FromInt(80)}
	case 1: // just what the platform has written, and where the class may let everybody lead
		si.Spec.Protocol, si.Spec.Listen = v1beta1.TCP, new(int32(7000))
		si.Spec.Upstream = v1beta1.StreamUpstream{Namespace: platform, Service: "web", Port: intstr.FromInt(80)}
	case 2, 3: // on the nodes, where Services want to be as well
		si.Spec.ClassName, si.Spec.Protocol, si.Spec.Listen = hostClassName, v1beta1.TCP, new(pick[int32](rng, 8080, 8081, 8082))
	case 4, 5: // without a proxy, on the address of which Services, and the proxy's, have ports
		si.Spec.ClassName = directClassName
	}
	if rng.IntN(3) == 0 {
		si.Finalizers = []string{mine}
	}
	listen := "any port"
	if si.Spec.Listen != nil {
		listen = fmt.Sprint(*si.Spec.Listen)
	}
	return creates(u, si, fmt.Sprintf("%s %s %s, to %s%s, finalizers %v", si.Spec.ClassName, si.Spec.Protocol, listen, si.Spec.Upstream.Service, si.Spec.Upstream.Host, si.Finalizers))
}

// upstreamText leads a stream elsewhere: within its namespace, out of the cluster, or to somebody who has not consented.
func upstreamText(rng *rand.Rand) string {
	return pick(rng,
		`{"spec":{"is_service":true,"upstream":{"service":"lb-0","host":null,"namespace":null,"port":80}}}`,
		`{"spec":{"is_service":true,"upstream":{"service":"lb-0","host":null,"namespace":null,"port":80}}}`,
		`{"spec":{"is_service":true,"upstream":{"service":"web-0","host":null,"namespace":null,"port":8080}}}`,
		`{"spec":{"is_service":true,"upstream":{"service":"web","host":null,"namespace":"platform","port":80}}}`,
		`{"spec":{"is_service":false,"upstream":{"service":null,"host":"192.0.2.8","namespace":null,"port":80}}}`,
		`{"spec":{"is_service":false,"upstream":{"service":null,"host":"169.254.169.254","namespace":null,"port":80}}}`,
	)
}

// floodStream changes the same stream many times at once.
func floodStream(u *user, rng *rand.Rand) act {
	si := aStream(u, rng)
	var acts []act
	for range 12 {
		acts = append(acts, merges(u, si, fmt.Sprintf(`{"spec":{"listen":%s}}`, listenText(rng))))
	}
	return atOnce(acts...)
}
