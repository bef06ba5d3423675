package claim

import (
	"context"
	"strings"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// HostnameScope is the scope of all host names that are somebody's as such, whatever serves them: the namespace's that has the name.
const HostnameScope = "hostname"

// Hostname is the coordinate of a host name as such, with all paths, behind every proxy and in the DNS. It may have a * as its first label:
// that stands for all names below. The result is the zero Coordinate unless host is a DNS name in lower case.
func Hostname(host string) Coordinate {
	at := Host(host)
	at.named = !at.IsZero()
	return at
}

// IsHostname says whether c is a host name as such.
func (c Coordinate) IsHostname() bool { return c.named }

// Suffixes are the parts of a host name behind each of its dots, the longest first: those names of which *. and the part stands for it.
func Suffixes(host string) (suffixes []string) {
	for {
		_, rest, found := strings.Cut(host, ".")
		if !found {
			return suffixes
		}
		suffixes, host = append(suffixes, rest), rest
	}
}

func (c Coordinate) hostnameName() string {
	return hashedName(HostnameScope, HostnameScope+" "+c.host, strings.Replace(c.host, "*", "any", 1), "")
}

// Overlapping finds the claims of others on host names that stand for one, or that one stands for, by the names of the claims. The answer
// is not older than a version of claims, empty for whatever is known.
type Overlapping func(ctx context.Context, at Coordinate, by Holder, version string) ([]string, error)

// hostnameRival finds a claim of somebody else on a name that stands for another one, or for which that one stands. A cache says where to
// look: once it shows the holder's own claim, it shows all that were made before that. Whoever claims one later sees this one.
func (l *Ledger) hostnameRival(ctx context.Context, at Coordinate, holder Holder, version string) (*v1beta1.EdgeClaim, error) {
	if l.Overlapping == nil {
		return nil, nil
	}
	names, err := l.Overlapping(ctx, at, holder, version)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		found, err := l.live(ctx, name)
		if err != nil || found != nil && (HolderOf(found) != holder || isAnothersSoon(found, holder)) {
			return found, err
		}
	}
	return nil, nil
}
