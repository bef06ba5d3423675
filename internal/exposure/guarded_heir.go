package exposure

import (
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// HandedTo are the points that an Ingress which is stored serves, and that others hand over to it: admission was not asked, or claimed only
// the first of very many. There are none where admission would refuse the Ingress if it asked for all that it serves, nor for one that
// hands over itself. The request has no Before. graceLeft says how long a claim is kept if its holder is gone.
func HandedTo(facts Facts, r PathRequest, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (handed []claim.Coordinate) {
	if HandsOver(r.Ingress) || listsMore(r.Ingress, MostEntries) {
		return nil
	}
	self := claim.IngressHolder(r.Ingress.Namespace, r.Ingress.Name)
	for _, at := range PointsOf(r.Ingress) {
		held := facts.Claim(at.Name())
		if held != nil && claim.HolderOf(held) != self && claim.HeirOf(held) == (claim.Holder{}) && !r.IsOwned(at.Host()) &&
			yields(facts, at, held, self) {
			handed = append(handed, at)
		}
	}
	if len(handed) == 0 || len(JudgePaths(facts, r, graceLeft).Problems) > 0 {
		return nil
	}
	return handed
}

// yieldsTo says whether the holder of a claim gives a point to who asks for it.
func yieldsTo(facts Facts, r PathRequest, at claim.Coordinate, held *v1beta1.EdgeClaim) bool {
	return !HandsOver(r.Ingress) && yields(facts, at, held, r.heirs()...)
}
