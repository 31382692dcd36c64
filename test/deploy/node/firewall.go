package node

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// firewall keeps the nftables rules of the node's network namespace: the addresses of Services lead to their endpoints,
// and NetworkPolicies hold.
type firewall struct {
	node       *Node
	services   corelisters.ServiceLister
	slices     discoverylisters.EndpointSliceLister
	namespaces corelisters.NamespaceLister
	policies   networkinglisters.NetworkPolicyLister
	wake       chan struct{}

	mu    sync.Mutex // held while the rules are made and loaded
	rules string     // those in force
}

func newFirewall(n *Node, factory informers.SharedInformerFactory) *firewall {
	f := &firewall{
		node:       n,
		services:   factory.Core().V1().Services().Lister(),
		slices:     factory.Discovery().V1().EndpointSlices().Lister(),
		namespaces: factory.Core().V1().Namespaces().Lister(),
		policies:   factory.Networking().V1().NetworkPolicies().Lister(),
		wake:       make(chan struct{}, 1),
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f.changed() },
		UpdateFunc: func(any, any) { f.changed() },
		DeleteFunc: func(any) { f.changed() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Services().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
		factory.Core().V1().Namespaces().Informer(), factory.Networking().V1().NetworkPolicies().Informer(),
	} {
		_, _ = informer.AddEventHandler(handler) // fails only once the informer has stopped
	}
	return f
}

// changed has the rules made anew soon.
func (f *firewall) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *firewall) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if err := f.apply(); err != nil && ctx.Err() == nil {
			f.node.options.Problem(err.Error())
		}
		select { // many changes come together
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// apply makes the rules of what is known now and loads them at once.
func (f *firewall) apply() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules, err := f.render()
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	if rules == f.rules {
		return nil
	}
	if _, err := f.node.Nft(rules, "-f", "-"); err != nil {
		return fmt.Errorf("firewall: %w\n%s", err, rules)
	}
	f.rules = rules
	return nil
}

// Nft runs nft in the node's network, where a test can count what pods send past all policies, and returns its output.
func (n *Node) Nft(input string, args ...string) (string, error) {
	var output []byte
	err := inNetwork(n.network.namespace, func() (err error) {
		cmd := exec.Command("nft", args...)
		cmd.Stdin = strings.NewReader(input)
		output, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		err = fmt.Errorf("nft: %w: %s", err, output)
	}
	return string(output), err
}

func (f *firewall) render() (string, error) {
	translations, hairpins, err := f.translations()
	if err != nil {
		return "", err
	}
	var spoofed []string
	pods := f.pods()
	for _, p := range pods {
		if p.link != "" {
			spoofed = append(spoofed, fmt.Sprintf("iifname %s ip saddr != %s drop", p.link, p.address))
		}
	}
	jumps, chains, links, err := f.policyRules(pods)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`table ip cluster
delete table ip cluster
table ip cluster {
	chain services {
		%s
	}
	chain from_pods { type nat hook prerouting priority dstnat; jump services; }
	chain from_node { type nat hook output priority -100; jump services; }
	chain hairpins { type nat hook postrouting priority srcnat;
		%s
	}
	%s
	chain no_endpoint { ip daddr `+ServiceRange+` ip daddr != `+DNSService+` reject; }
	chain to_services { type filter hook output priority filter; jump no_endpoint; }
	chain policies { type filter hook prerouting priority filter;
		%s
		jump no_endpoint
		iifname lo accept
		ct state established,related accept
		%s
	}
}
table ip6 cluster
delete table ip6 cluster
table ip6 cluster {
	chain policies { type filter hook prerouting priority filter;
		%s
	}
}
`, lines(translations), lines(hairpins), strings.Join(chains, "\n\t"), lines(spoofed), lines(jumps), lines(links)), nil
}

func lines(rules []string) string { return strings.Join(rules, "\n\t\t") }

// translations lead each port of each Service to a random one of its ready endpoints.
func (f *firewall) translations() (rules, hairpins []string, err error) {
	services, err := f.services.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	own := map[string]bool{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		found, err := f.slices.EndpointSlices(s.Namespace).List(
			labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}))
		if err != nil {
			return nil, nil, err
		}
		for _, port := range s.Spec.Ports {
			var targets []string
			for _, slice := range found {
				targets = append(targets, endpoints(slice, port.Name, own)...)
			}
			if len(targets) == 0 {
				continue // what is still sent to its address is refused
			}
			slices.Sort(targets)
			protocol := strings.ToLower(string(port.Protocol))
			rules = append(rules,
				fmt.Sprintf("ip daddr %s %s dport %d dnat to %s", s.Spec.ClusterIP, protocol, port.Port, random(targets)))
		}
	}
	for address := range own { // a pod that reaches itself by a Service must not see its own address
		hairpins = append(hairpins, fmt.Sprintf("ip saddr %s ip daddr %s masquerade", address, address))
	}
	slices.Sort(rules)
	slices.Sort(hairpins)
	return rules, hairpins, nil
}

// endpoints are the addresses and ports of a slice that are ready, as nft writes them.
func endpoints(slice *discoveryv1.EndpointSlice, port string, own map[string]bool) []string {
	var found []string
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name != nil && *p.Name != port {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			own[e.Addresses[0]] = true
			found = append(found, fmt.Sprintf("%s . %d", e.Addresses[0], *p.Port))
		}
	}
	return found
}

func random(targets []string) string {
	if len(targets) == 1 {
		return strings.ReplaceAll(targets[0], " . ", ":")
	}
	var elements []string
	for i, target := range targets {
		elements = append(elements, fmt.Sprintf("%d : %s", i, target))
	}
	return fmt.Sprintf("numgen random mod %d map { %s }", len(targets), strings.Join(elements, ", "))
}
