package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
)

// ruleFlags holds the flags of a sale's rules as they were typed. Each takes
// none, which takes the rule away.
type ruleFlags struct {
	buyerRate, addressRate, ratio, ticket, challenge string
	risk, onFailure, eligibility                     string
	visibility, availability                         string
	riskTimeout                                      time.Duration
}

func (f *ruleFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.buyerRate, "buyer-rate", "",
		"tries of one buyer, `N/PERIOD` like 10/1s, or 10/1s,shared over all servers, or none")
	fl.StringVar(&f.addressRate, "address-rate", "",
		"tries from one address, `N/PERIOD` like 100/1s, or 100/1s,shared over all servers, or none")
	fl.StringVar(&f.ratio, "admission-ratio", "",
		"claims in flight over all servers, `X` times the units available, or none")
	fl.StringVar(&f.ticket, "ticket-before", "",
		"ask for a ticket, handed out from `DURATION` before the opening on, or none")
	fl.StringVar(&f.challenge, "challenge", "", "ask for a proof of work of `BITS` before the ticket, or none")
	fl.StringVar(&f.risk, "risk-url", "", "ask the risk service at `URL` before the ticket, or none")
	fl.DurationVar(&f.riskTimeout, "risk-timeout", time.Duration(sluice.Risk{}.WithDefaults().TimeoutMS)*time.Millisecond,
		"how long to wait for the risk service")
	fl.StringVar(&f.onFailure, "risk-on-failure", string(sluice.Deny),
		"`POLICY` when the risk service does not answer: allow or deny")
	fl.StringVar(&f.visibility, "visibility", "",
		"who finds the sale: `WORD` listed, unlisted (by the sale's id alone) or hidden (no buyer)")
	fl.StringVar(&f.availability, "availability", "",
		"what buyers read of the units left: `WORD` exact, some (whether there are any) or none")
	fl.StringVar(&f.eligibility, "eligibility", "", "who may buy: `BY` token or list, or none for every buyer")
}

// message puts what was typed into the API's message.
func (f *ruleFlags) message(cmd *cobra.Command, m *api.PatchRules) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if given("visibility") {
		m.Visibility = api.Some(sluice.Visibility(f.visibility))
	}
	if given("availability") {
		m.Availability = api.Some(sluice.Availability(f.availability))
	}
	return cmp.Or(
		flagRule(given, "buyer-rate", f.buyerRate, &m.BuyerRate, parseRate),
		flagRule(given, "address-rate", f.addressRate, &m.AddressRate,
			func(text string) (sluice.AddressRate, error) {
				rate, err := parseRate(text)
				return sluice.AddressRate(rate), err
			}),
		flagRule(given, "admission-ratio", f.ratio, &m.AdmissionRatio, func(text string) (float64, error) {
			ratio, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, errors.New("want a number like 1.5, or none")
			}
			return ratio, nil
		}),
		flagRule(given, "ticket-before", f.ticket, &m.Ticket, func(text string) (sluice.Ticket, error) {
			d, err := time.ParseDuration(text)
			if err != nil || d < time.Second || d%time.Second != 0 {
				return sluice.Ticket{}, errors.New("want whole seconds like 60s, or none")
			}
			return sluice.Ticket{BeforeS: int64(d / time.Second)}, nil
		}),
		flagRule(given, "challenge", f.challenge, &m.Challenge, func(text string) (sluice.Challenge, error) {
			bits, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return sluice.Challenge{}, errors.New("want a number of bits like 18, or none")
			}
			return sluice.Challenge{Difficulty: bits}, nil
		}),
		f.riskMessage(given, m),
		flagRule(given, "eligibility", f.eligibility, &m.Eligibility, func(text string) (sluice.Eligibility, error) {
			return sluice.Eligibility(text), nil
		}),
	)
}

func (f *ruleFlags) riskMessage(given func(string) bool, m *api.PatchRules) error {
	for _, name := range []string{"risk-timeout", "risk-on-failure"} {
		if given(name) && (!given("risk-url") || f.risk == "none") {
			return fmt.Errorf("--%s: want --risk-url with it", name)
		}
	}
	return flagRule(given, "risk-url", f.risk, &m.Risk, func(text string) (sluice.Risk, error) {
		if f.riskTimeout < time.Millisecond || f.onFailure == "" {
			return sluice.Risk{}, errors.New("want a --risk-timeout of 1ms or more, and allow or deny as --risk-on-failure")
		}
		return sluice.Risk{URL: text, TimeoutMS: f.riskTimeout.Milliseconds(), OnFailure: sluice.OnFailure(f.onFailure)}, nil
	})
}

// flagRule reads one flag, if it was given.
func flagRule[T any](given func(string) bool, name, text string, into *api.Nullable[T],
	parse func(string) (T, error),
) error {
	switch {
	case !given(name):
	case text == "none":
		*into = api.Null[T]()
	default:
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf("--%s %q: %w", name, text, err)
		}
		*into = api.Value(v)
	}
	return nil
}

// parseLimits reads household=2,device=1.
func parseLimits(text string) (limits []sluice.Limit, err error) {
	for part := range strings.SplitSeq(text, ",") {
		by, most, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseInt(most, 10, 64)
		if err != nil {
			return nil, errors.New("want what the limits are by and how many units each, like household=2,device=1, or none")
		}
		limits = append(limits, sluice.Limit{By: by, Max: n})
	}
	return limits, nil
}

// parseRate reads 10/1s.
func parseRate(text string) (rate sluice.BuyerRate, err error) {
	text, rate.Shared = strings.CutSuffix(text, ",shared")
	count, period, _ := strings.Cut(text, "/")
	rate.Requests, err = strconv.ParseInt(count, 10, 64)
	d, bad := time.ParseDuration(period)
	if err != nil || bad != nil || d < time.Second || d%time.Second != 0 {
		return rate, errors.New("want a number of tries per whole seconds like 10/1s, or none")
	}
	rate.PerS = int64(d / time.Second)
	return rate, nil
}

// showRules are the rules of a sale for people, those that it has.
func showRules(r *api.Rules) (fields [][2]string) {
	add := func(name, text string) { fields = append(fields, [2]string{name, text}) }
	over := func(text string, shared bool) string {
		if shared {
			text += ", over all servers"
		}
		return text
	}
	rate := func(requests, perS int64) string {
		return fmt.Sprintf("%s in %s", figures.Plural(requests, "try", "tries"), time.Duration(perS)*time.Second)
	}
	if b := r.BuyerRate; b != nil {
		add("buyer rate", over(rate(b.Requests, b.PerS), b.Shared))
	}
	if a := r.AddressRate; a != nil {
		add("address rate", over(rate(a.Requests, a.PerS), a.Shared))
	}
	if ratio := r.AdmissionRatio; ratio != nil {
		add("admission", fmt.Sprintf("%v claims at a time for each unit available", *ratio))
	}
	if r.Ticket != nil {
		add("ticket", fmt.Sprintf("from %s before the opening on", time.Duration(r.Ticket.BeforeS)*time.Second))
	}
	if r.Challenge != nil {
		add("challenge", figures.Plural(r.Challenge.Difficulty, "bit", "bits"))
	}
	if k := r.Risk; k != nil {
		add("risk", fmt.Sprintf("%s within %s, or %s", clean(k.URL), time.Duration(k.TimeoutMS)*time.Millisecond,
			k.OnFailure))
	}
	if r.Visibility != "" && r.Visibility != api.Listed {
		add("visibility", clean(string(r.Visibility)))
	}
	if r.Availability != "" && r.Availability != api.Exact {
		add("availability", "buyers read "+clean(string(r.Availability)))
	}
	if r.Eligibility != nil {
		add("eligibility", "by "+clean(string(*r.Eligibility)))
	}
	return fields
}
