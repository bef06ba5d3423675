package integration

import (
	"maps"
	"slices"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

func TestUninstallation(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 1}))
	e := w.newManualEdge("uninstall")
	s := sti("uninstall/s", of("uninstall"), tcp(5432))
	w.eventually("the class to be seen", func() error { return w.try(s) })
	w.create(sti("uninstall/u", of("uninstall"), udp(443)), sti("uninstall/out", of("uninstall"), tcp(1), outside("192.0.2.1", 1)))
	e.leads(TCP, 5432, "uninstall/web:80")
	e.leads(UDP, 443, "uninstall/web:80")

	for _, kind := range []string{"streamingresses", "streamingressclasses", "edgeclaims"} {
		w.mustKubectl("", "delete", "crd", kind+".nginx-stream.jeffthecoder.xyz", "--timeout=60s")
	}
	e.leads(TCP, 5432, "closed")
	e.leads(UDP, 443, "closed")
	e.intact()
	cm, svc := configMap(e.namespace+"/tcp-services", nil), service(e.namespace+"/proxy")
	w.eventually("the labels to go", func() error {
		w.get(cm, svc)
		return is(cm.Labels[v1beta1.LabelClass]+svc.Labels[v1beta1.LabelClass], "")
	})
	if keys := slices.Sorted(maps.Keys(cm.Data)); !slices.Equal(keys, []string{"9000", "note"}) {
		t.Errorf("left in tcp-services: %v", keys)
	}
	if got := names(svc); got != "http,https" {
		t.Errorf("left on the Service: %s", got)
	}
}
