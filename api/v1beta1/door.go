package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// StreamLoadBalancerClass is the spec.loadBalancerClass of the Services that are written for the streams of classes with an
// addressPool. Their status is written with them: whoever announces addresses has to be told of this class. It can't be changed
// once it is set, so that no Service of the one kind ever becomes one of the other.
const StreamLoadBalancerClass = GroupName + "/stream"

// StreamServiceName is the name of the Service that a port of a class with an addressPool has, for example public-tcp-5432. Names
// that a Service can't have (too long, with dots, or with a digit first) are cut, and told apart by a hash.
func StreamServiceName(class string, protocol Protocol, port int32) string {
	point := fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), port)
	if name := class + "-" + point; len(validation.IsDNS1035Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(class))
	hash := hex.EncodeToString(sum[:5])
	kept := "class-" + strings.ReplaceAll(class, ".", "-")
	if room := validation.DNS1035LabelMaxLength - len(point) - len(hash) - 2; len(kept) > room {
		kept = kept[:room]
	}
	return kept + "-" + hash + "-" + point
}
