package main

import (
	"fmt"
	"strings"
)

// The units that Grafana knows.
const (
	count     = "short"
	perSecond = "reqps"
	seconds   = "s"
	bytes     = "bytes"
	ratio     = "percentunit"
	days      = "d"
	yesOrNo   = "bool_yes_no"
)

// row is one row of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is one picture.
type panel struct {
	title string
	// about says what it shows, and what to make of it.
	about   string
	unit    string
	queries queries
	// number shows the last value in place of a curve.
	number bool
	// bad is from where on a value is bad, 0 for nowhere; below says that it is bad up to there.
	bad   float64
	below bool
}

type queries []query

// query is a query, and what its series are called.
type query struct{ legend, expr string }

func number(title, about, unit, expr string) panel {
	return panel{title: title, about: about, unit: unit, queries: queries{{title, expr}}, number: true}
}

func curves(title, about, unit string, q queries) panel {
	return panel{title: title, about: about, unit: unit, queries: q}
}

// badFrom says from where on values are bad.
func (p panel) badFrom(value float64) panel {
	p.bad = value
	return p
}

// badBelow says below what values are bad.
func (p panel) badBelow(value float64) panel {
	p.bad, p.below = value, true
	return p
}

// rates are how fast counters rise, by labels.
func rates(by, counter string) queries {
	return queries{{legend(by), fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", by, counter)}}
}

// most is the largest of the values that replicas have, by labels.
func most(by, gauge string) queries {
	return queries{{legend(by), fmt.Sprintf("max by (%s) (%s)", by, gauge)}}
}

// over divides each query.
func (q queries) over(divisor string) queries {
	for i := range q {
		q[i].expr += " / (" + divisor + ")"
	}
	return q
}

// quantiles are the median and the 99th percentile of a histogram, by labels.
func quantiles(by, histogram, of string) queries {
	labels := "le"
	if by != "" {
		labels = by + ", le"
	}
	var q queries
	for _, percent := range []float64{50, 99} {
		q = append(q, query{strings.TrimSpace(fmt.Sprintf("%s p%g", legend(by), percent)),
			fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s_bucket%s[$__rate_interval])))", percent/100, labels, histogram, of)})
	}
	return q
}

// legend calls series by their labels.
func legend(by string) string {
	var names []string
	for label := range strings.SplitSeq(by, ", ") {
		if label != "" {
			names = append(names, "{{"+label+"}}")
		}
	}
	return strings.Join(names, " ")
}
