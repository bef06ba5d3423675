package refusal

// Share is what there is of something that only so much may be had of, in points: by an object that is judged, and by the
// others that share the limit with it.
type Share struct {
	// Limit is how many all of them may have, 0 for any number, and All how many they have.
	Limit, All int
	// Own is how many of these the object has; Wanted is how many it is to have, and Added how many of those are new to it.
	Own, Wanted, Added int
}

// Exceeded says whether the object may not have what is new to it. A point for a point that it leaves is not one more: that
// much is nobody's loss, even where there is more than the limit by now. What an object holds beyond what it is to have
// counts until it is released.
func (s Share) Exceeded() bool {
	moved := min(max(s.Own-s.Wanted+s.Added, 0), s.Added)
	if s.Limit == 0 || s.Added == 0 || s.Added == moved && s.Own <= s.Wanted {
		return false
	}
	return s.All+s.Added-moved > s.Limit
}
