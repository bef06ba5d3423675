package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestAPIServerCrashes kills the API server twice in the middle of a burst.
func TestAPIServerCrashes(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	w := newFixture(t, h)
	e := w.newEdge("restart", autoAssign(30000, 30999))
	c := e.churning("restart", 4)
	alive := h.Replicas
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.live(0, 400, 16)
	}()
	for range 2 {
		time.Sleep(700 * time.Millisecond)
		began := time.Now()
		must(w, h.CrashAPIServer(t.Context()))
		t.Logf("the API server was away for %v", time.Since(began).Round(time.Millisecond))
		alive = w.replaced(alive...)
	}
	<-ended
	e.isExact()
	e.nobodyWasLiedTo()
}

// TestCertificateIsGarbage puts garbage where the webhook's certificate is kept, while Portcullis runs and while it does
// not. Nobody is told yes without Portcullis, and it mends by itself.
func TestCertificateIsGarbage(t *testing.T) {
	t.Parallel()
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false")
	h := start(t, o)
	w := newFixture(t, h)
	e := w.newEdge("certificate")
	w.create(namespace("certificate"))
	for i, down := range []bool{false, true} {
		s := sti(fmt.Sprintf("certificate/web-%d", i), of("certificate"), tcp(int32(8080+i)))
		if down {
			must(w, h.Replicas[0].Kill())
		}
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = "portcullis-system", "portcullis-webhook-cert"
		edit(w, secret, func(s *corev1.Secret) {
			for key := range s.Data {
				s.Data[key] = []byte("garbage")
			}
		})
		if down {
			err := w.try(s.DeepCopy())
			if err == nil {
				t.Fatal("a stream was created while nobody was there to say yes")
			}
			mustContain(t, err.Error(), "failed calling webhook", "streamingress."+v1beta1.GroupName)
			_, err = h.StartReplica(t.Context())
			must(w, err)
		}
		w.eventually("the certificate to be made anew", func() error {
			w.get(secret)
			return is(string(secret.Data["tls.crt"]) != "garbage", true)
		})
		refusals := 0
		w.eventually("admission to work again", func() error {
			err := w.try(s.DeepCopy())
			if err != nil {
				refusals++
				mustContain(t, err.Error(), "failed calling webhook")
			}
			return err
		})
		t.Logf("down: %v; %d creates failed after the certificate was made anew", down, refusals)
		e.isExact()
	}
}
