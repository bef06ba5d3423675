package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const outsidePrefix = "sti-"

// IsOutsideServiceName says whether a Service is named as Portcullis names those of outside upstreams. Others may be, too.
func IsOutsideServiceName(service string) bool { return strings.HasPrefix(service, outsidePrefix) }

// OutsideServiceName is the name of the Service that Portcullis makes for the outside upstream of a StreamIngress: the
// stream's name behind the prefix "sti-". Names that a Service can't have (too long, or with dots) are cut, and told
// apart by a hash.
func OutsideServiceName(stream string) string {
	const limit = 63
	if name := outsidePrefix + stream; len(name) <= limit && !strings.Contains(stream, ".") {
		return name
	}
	sum := sha256.Sum256([]byte(stream))
	hash := hex.EncodeToString(sum[:5])
	kept := strings.ReplaceAll(stream, ".", "-")
	if room := limit - len(outsidePrefix) - 1 - len(hash); len(kept) > room {
		kept = kept[:room]
	}
	return outsidePrefix + kept + "-" + hash
}
