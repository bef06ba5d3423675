package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// firstRelease is the commit that stands for the first release: what strangers have installed.
const firstRelease = "7dbc36e7d3df94a02eb5cda1df303d49bafae044"

// TestUpgrade installs the first release, lets it give away some of everything, upgrades it to the present code, goes back,
// and upgrades again, while users create StreamIngresses and visitors come from outside. No request fails, no door closes,
// not even for a moment, and no address moves.
func TestUpgrade(t *testing.T) {
	needs(t, target.script != "", "the first release is built for a cluster that CLUSTER makes")
	first, present := buildFirstRelease(t), presentRelease(t)
	t.Cleanup(func() {
		if err := deploy(target.overlay); err != nil {
			t.Error(err)
		}
	})
	if err := undeploy(target.overlay); err != nil {
		t.Fatal(err)
	}
	first.roll(t)
	given := giveAway(t)
	history := watchHistory(t, given.kept()...)
	visitors := visiting(t, given.addresses...)
	u, rivals := busy(t, "upgraded"), rivalsForHosts(t, given.namespace+".example.com")
	for _, r := range []struct {
		what string
		release
	}{
		{"the upgrade", present}, {"the way back", first}, {"the next upgrade", present},
	} {
		time.Sleep(settling)
		begin := time.Now()
		if r.release == first {
			forgetWebhooks(t)
			claimAsBefore(t, given.namespace+".example.com")
		}
		r.roll(t)
		t.Logf("%s took %s", r.what, time.Since(begin).Round(time.Second))
	}
	time.Sleep(settling)
	rivals.neverBothHadOne(t)
	u.stop()
	u.report(t)
	u.noneFailed(t)
	visitors.wereAnswered(t)
	history.unchanged(t)
	u.keptTheirWord(t)
}

// forgetWebhooks removes the webhooks that the first release does not know, as docs/operations.md says for the way back: the
// field that cert-manager has written to them would stay, without the rest.
func forgetWebhooks(t *testing.T) {
	t.Helper()
	kubectl(t, "patch", "validatingwebhookconfiguration", "portcullis", "--type=strategic", "-p",
		`{"webhooks": [{"name": "hostpolicy.nginx-stream.jeffthecoder.xyz", "$patch": "delete"},
		{"name": "service-ports.nginx-stream.jeffthecoder.xyz", "$patch": "delete"},
		{"name": "service.nginx-stream.jeffthecoder.xyz", "matchConditions": [{"name": "not-judged-by-service-ports", "$patch": "delete"}]}]}`)
}

// claimAsBefore has a host be claimed for all classes at once, as docs/operations.md says for the way back: the first release would not know
// that somebody has it.
func claimAsBefore(t *testing.T, host string) {
	t.Helper()
	kubectl(t, "label", "pods", "-n", system, "-l", "app.kubernetes.io/component=manager", "nginx-stream.jeffthecoder.xyz/ledger-")
	eventually(t, host+" to be claimed for all classes", func() error {
		claims, err := tryKubectl("", "get", "edgeclaims", "--field-selector=spec.scope=http,spec.point="+host+"/", "-o", "name")
		if err == nil && claims == "" {
			err = errors.New("it is not")
		}
		return err
	})
}

// release is a version of Portcullis: a copy of its repository, in which the API server may wait long for the webhooks, and
// its image, which the nodes have.
type release struct {
	dir, image string
}

// roll deploys the release as its users do, and waits until no replica of another is left.
func (r release) roll(t *testing.T) {
	t.Helper()
	if err := command("make", "-C", r.dir, "deploy", "OVERLAY="+target.overlay, "IMG="+r.image, "KUBECTL="+strings.Join(target.kubectl, " ")); err != nil {
		t.Fatal(err)
	}
	rollOut(t)
	for _, one := range replicas(t) {
		if image := kubectl(t, "get", "pod", one.Metadata.Name, "-n", system, "-o", "jsonpath={.spec.containers[0].image}"); image != r.image {
			t.Fatalf("%s runs %s, want %s", one.Metadata.Name, image, r.image)
		}
	}
	leader(t)
	if err := awaitAdmission(); err != nil {
		t.Fatal(err)
	}
}

// buildFirstRelease builds the first release from the repository's history and loads its image into the nodes.
func buildFirstRelease(t *testing.T) release {
	t.Helper()
	r := release{dir: t.TempDir(), image: "localhost/portcullis:first"}
	git := func(args ...string) error { return command("git", append([]string{"-C", root}, args...)...) }
	archive := filepath.Join(r.dir, "first.tar")
	err := git("archive", "--output="+archive, firstRelease)
	if err != nil { // not all of the history has been cloned
		err = errors.Join(git("fetch", "--depth=1", "origin", firstRelease), git("archive", "--output="+archive, firstRelease))
	}
	if err != nil {
		t.Fatalf("reading the first release from the history: %v", err)
	}
	if err := inOrder(
		func() error { return command("tar", "--extract", "--file="+archive, "--directory="+r.dir) },
		func() error { return command("make", "-C", r.dir, "build", "VERSION=first") },
		func() error {
			return load(target.script, r.image, filepath.Join(r.dir, "bin", "portcullis"), "/portcullis")
		},
	); err != nil {
		t.Fatal(err)
	}
	r.bePatient(t)
	return r
}

// presentRelease is the code as it lies here, with the image that was built of it.
func presentRelease(t *testing.T) release {
	t.Helper()
	r := release{dir: t.TempDir(), image: target.image}
	const copied = `git -C "$0" ls-files --cached --others --exclude-standard -z | tar -C "$0" --create --null --files-from=- | tar -C "$1" --extract`
	if err := command("sh", "-c", copied, root, r.dir); err != nil {
		t.Fatal(err)
	}
	r.bePatient(t)
	return r
}

// bePatient lets the API server wait long for the webhooks of a release, see bePatient.
func (r release) bePatient(t *testing.T) {
	t.Helper()
	file := filepath.Join(r.dir, "config", "webhook", "manifests.yaml")
	manifests, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	patient := timeouts.ReplaceAll(manifests, fmt.Appendf(nil, "timeoutSeconds: %d", long))
	if bytes.Equal(patient, manifests) {
		t.Fatalf("%s says of no webhook how long it may take", file)
	}
	if err := os.WriteFile(file, patient, 0o644); err != nil {
		t.Fatal(err)
	}
}

var timeouts = regexp.MustCompile(`timeoutSeconds: \d+`)
