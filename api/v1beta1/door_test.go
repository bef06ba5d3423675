package v1beta1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestStreamServiceName asks for names that a Service can have, and that no two ports share.
func TestStreamServiceName(t *testing.T) {
	if got, want := StreamServiceName("public", TCP, 5432), "public-tcp-5432"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	long := strings.Repeat("a", 63)
	seen := map[string]string{}
	for _, class := range []string{"public", "a.b", "a-b", "1st", "x", long, long[:62] + "b", long[:50], "public-tcp-1"} {
		for _, protocol := range []Protocol{TCP, UDP} {
			for _, port := range []int32{1, 443, 65535} {
				name := StreamServiceName(class, protocol, port)
				if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
					t.Errorf("%s is no name of a Service: %v", name, problems)
				}
				if other, taken := seen[name]; taken {
					t.Errorf("%s is the name of %s and of %s", name, class, other)
				}
				seen[name] = class
			}
		}
	}
}
