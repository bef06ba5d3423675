package guard

import (
	"flag"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestActions(t *testing.T) {
	for name, tc := range map[string]struct {
		in, text string
		want     Actions
	}{
		"nothing":           {"", "", Actions{}},
		"commas":            {",,", "", Actions{}},
		"one kind":          {"Gateway=Deny", "Gateway=Deny", Actions{Gateway: Deny}},
		"both":              {"ListenerSet=Warn,Gateway=Deny", "Gateway=Deny,ListenerSet=Warn", Actions{Gateway: Deny, ListenerSet: Warn}},
		"all":               {"all=Warn", "ExternalDNS=Warn,ExternalIPs=Warn,GRPCRoute=Warn,Gateway=Warn,HTTPRoute=Warn,Ingress=Warn,ListenerSet=Warn,TCPRoute=Warn,TLSRoute=Warn,UDPRoute=Warn", every(Warn, nil)},
		"all, but for one":  {"all=Deny,ListenerSet=Warn", "ExternalDNS=Deny,ExternalIPs=Deny,GRPCRoute=Deny,Gateway=Deny,HTTPRoute=Deny,Ingress=Deny,ListenerSet=Warn,TCPRoute=Deny,TLSRoute=Deny,UDPRoute=Deny", every(Deny, Actions{ListenerSet: Warn})},
		"one, and then all": {"ListenerSet=Warn,all=Deny", "ExternalDNS=Deny,ExternalIPs=Deny,GRPCRoute=Deny,Gateway=Deny,HTTPRoute=Deny,Ingress=Deny,ListenerSet=Warn,TCPRoute=Deny,TLSRoute=Deny,UDPRoute=Deny", every(Deny, Actions{ListenerSet: Warn})},
		"all, and some of them": {"Gateway=Warn,ListenerSet=Warn,all=Deny", "ExternalDNS=Deny,ExternalIPs=Deny,GRPCRoute=Deny,Gateway=Warn,HTTPRoute=Deny,Ingress=Deny,ListenerSet=Warn,TCPRoute=Deny,TLSRoute=Deny,UDPRoute=Deny",
			every(Deny, Actions{Gateway: Warn, ListenerSet: Warn})},
		"spaces":                         {" Gateway = Deny , ListenerSet= Warn ", "Gateway=Deny,ListenerSet=Warn", Actions{Gateway: Deny, ListenerSet: Warn}},
		"one twice, which says the same": {"Gateway=Deny,Gateway=Deny", "Gateway=Deny", Actions{Gateway: Deny}},
		"a comma behind":                 {"Gateway=Deny,", "Gateway=Deny", Actions{Gateway: Deny}},
		"all twice, which says the same": {"all=Deny,all=Deny", "ExternalDNS=Deny,ExternalIPs=Deny,GRPCRoute=Deny,Gateway=Deny,HTTPRoute=Deny,Ingress=Deny,ListenerSet=Deny,TCPRoute=Deny,TLSRoute=Deny,UDPRoute=Deny", every(Deny, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var a Actions
			if err := a.Set(tc.in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, a); diff != "" {
				t.Error(diff)
			}
			mustBe(t, "text", a.String(), tc.text)
			mustBe(t, "guards listeners", a.Guards(Listeners()...), tc.want[Gateway] != "" || tc.want[ListenerSet] != "")
		})
	}
}

func TestActionsThatAreNone(t *testing.T) {
	for in, want := range map[string]string{
		"Gateway":                     `"Gateway" is no action: want Gateway=Deny or Gateway=Warn`,
		"Gateway=":                    `"Gateway=" is no action: want Gateway=Deny or Gateway=Warn`,
		"Gateway=deny":                `"Gateway=deny" is no action: want Gateway=Deny or Gateway=Warn`,
		"Gateway=Deny=Warn":           `"Gateway=Deny=Warn" is no action: want Gateway=Deny or Gateway=Warn`,
		"all":                         `"all" is no action: want all=Deny or all=Warn`,
		"gateway=Deny":                `"gateway" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
		"=Deny":                       `"" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
		" ":                           `"" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
		"All=Deny":                    `"All" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
		"Route=Deny":                  `"Route" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
		"Gateway=Deny;all=Warn":       `"Gateway=Deny;all=Warn" is no action: want Gateway=Deny or Gateway=Warn`,
		"Gateway=Deny,Gateway=Warn":   `Gateway is named twice`,
		"all=Deny,all=Warn":           `all is named twice`,
		"ListenerSet=Deny,Route=Warn": `"Route" is no kind that can be guarded: want one of [Gateway ListenerSet TCPRoute UDPRoute TLSRoute ExternalIPs Ingress HTTPRoute GRPCRoute ExternalDNS], or all`,
	} {
		a := Actions{ListenerSet: Warn}
		if err := a.Set(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
		if diff := cmp.Diff(Actions{ListenerSet: Warn}, a); diff != "" {
			t.Errorf("%q changes them: %s", in, diff)
		}
	}
}

// TestActionsAreAFlag has the last flag count, and the zero value be printed.
func TestActionsAreAFlag(t *testing.T) {
	var a Actions
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&a, "guard", "what is guarded")
	if err := flags.Parse([]string{"--guard=all=Deny", "--guard=Gateway=Warn"}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "text", a.String(), "Gateway=Warn")
	flags.PrintDefaults()
	mustBe(t, "none", Actions(nil).Guards(), false)
}

func FuzzActions(f *testing.F) {
	for _, in := range []string{"", "all=Deny", "Gateway=Warn,all=Deny", " Gateway = Deny ,", "=", ",=,", "Gateway==Deny", "all=Deny,all=Warn"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		a := Actions{Gateway: Warn}
		if err := a.Set(in); err != nil {
			if diff := cmp.Diff(Actions{Gateway: Warn}, a); diff != "" {
				t.Fatalf("%q is refused, and changes them: %s", in, diff)
			}
			return
		}
		for kind, action := range a {
			if !slices.Contains(Kinds(), kind) || action != Deny && action != Warn {
				t.Fatalf("%q is read as %s=%s", in, kind, action)
			}
		}
		var back Actions
		if err := back.Set(a.String()); err != nil {
			t.Fatalf("%q is written as %q: %v", in, a.String(), err)
		}
		if diff := cmp.Diff(a, back); diff != "" {
			t.Errorf("%q is written as %q: %s", in, a.String(), diff)
		}
	})
}

// every is an action for all kinds, but for some that have their own.
func every(action Action, but Actions) Actions {
	a := Actions{}
	for _, kind := range Kinds() {
		a[kind] = action
	}
	maps.Copy(a, but)
	return a
}
