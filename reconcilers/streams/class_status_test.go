package streams

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestRefuse(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"words that fit":                        {"Service edge/proxy: no", "Service edge/proxy: no"},
		"the longest that fit":                  {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"words that are too long":               {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "..."},
		"a letter of several bytes on the edge": {strings.Repeat("x", 1020) + "üüü", strings.Repeat("x", 1020) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			var r classReport
			r.refuse(tcpPorts(80)[0], v1beta1.ReasonPortRefused, tc.in)
			want := []v1beta1.RefusedPort{{Protocol: v1beta1.TCP, Port: 80, Reason: "PortRefused", Message: tc.want}}
			if diff := cmp.Diff(want, r.refused); diff != "" || !utf8.ValidString(r.refused[0].Message) {
				t.Error(diff)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		report  classReport
		retries bool
	}{
		"all is well":                    {classReport{wrote: true}, false},
		"the Service is missing":         {classReport{serviceMissing: true}, false},
		"a port was refused":             {classReport{refused: make([]v1beta1.RefusedPort, 1)}, true},
		"the ConfigMap can't be written": {classReport{configMapError: errors.New("no")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.report.again(); (got == watch.RefusedRetry) != tc.retries || (got == 0) == tc.retries {
				t.Errorf("got %v", got)
			}
		})
	}
}
