package audit

import "time"

const (
	// restCosts and suspectCosts are how many times what a look costs the pause is at least: at rest looks take 0.25 %
	// of a processor, so that with all else it is less than one, and a tenth of a processor while something is suspect.
	restCosts, suspectCosts = 400, 10
	// suspectLooks is how many looks there are in an interval while something is suspect.
	suspectLooks = 6
	// mostIntervals and longest bound the pause at rest, whatever a look costs: nobody learns of a disagreement while nobody looks,
	// and the alert PortcullisLedgerNotAudited waits for a quarter of an hour.
	mostIntervals = 10
	longest       = 10 * time.Minute
)

// Pause is how long to wait after a look, by the processor time that it has cost: at least an interval, and else at most ten, or ten
// minutes. With suspects it is a sixth of an interval at least, and an interval at most. After a look that failed it is an interval:
// else the second look after one that told anything could come later than the alert.
func Pause(interval, cost time.Duration, suspects, failed bool) time.Duration {
	switch {
	case failed:
		return interval
	case suspects:
		return min(max(interval/suspectLooks, suspectCosts*cost), interval)
	}
	return max(interval, min(restCosts*cost, mostIntervals*interval, longest))
}
