package node

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpoint is what NetworkPolicies see of a pod.
type endpoint struct {
	namespace, address, link string
	labels                   labels.Set
	ports                    map[string]int32 // by name
}

// pods are the pods with a network, and the cluster's DNS, which policies name as kube-dns in kube-system.
func (f *firewall) pods() []endpoint {
	all := []endpoint{{
		namespace: metav1.NamespaceSystem, address: DNSService, labels: labels.Set{"k8s-app": "kube-dns"},
		ports: map[string]int32{"dns": 53, "dns-tcp": 53},
	}}
	for _, r := range f.node.pods() {
		pod := r.current()
		e := endpoint{namespace: pod.Namespace, address: r.network.address, link: r.network.link, labels: pod.Labels,
			ports: map[string]int32{}}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, p := range c.Ports {
				if p.Name != "" {
					e.ports[p.Name] = p.ContainerPort
				}
			}
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b endpoint) int { return strings.Compare(a.address, b.address) })
	return all
}

// policyRules make a chain for each pod and direction that some policy selects: what no rule of it lets pass is
// refused. What the node itself sends, as its probes, is not asked. links drop IPv6, of which no rule can let anything
// pass: no pod has such an address but that of its link.
func (f *firewall) policyRules(pods []endpoint) (jumps, chains, links []string, err error) {
	policies, err := f.policies.List(labels.Everything())
	if err != nil {
		return nil, nil, nil, err
	}
	for _, pod := range pods {
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress} {
			rules, isolated, err := f.rulesFor(pod, direction, policies, pods)
			if err != nil {
				return nil, nil, nil, err
			}
			if !isolated {
				continue
			}
			if direction == networkingv1.PolicyTypeEgress && pod.link != "" {
				links = append(links, fmt.Sprintf("iifname %s drop", pod.link))
			}
			slices.Sort(rules)
			name := strings.ToLower(string(direction)) + "_" + strings.ReplaceAll(pod.address, ".", "_")
			side := map[networkingv1.PolicyType]string{networkingv1.PolicyTypeEgress: "saddr",
				networkingv1.PolicyTypeIngress: "daddr"}
			jumps = append(jumps, fmt.Sprintf("ip %s %s jump %s", side[direction], pod.address, name))
			chains = append(chains, fmt.Sprintf("chain %s {\n\t\t%s\n\t}", name, lines(append(rules, "reject"))))
		}
	}
	return jumps, chains, links, nil
}

// rulesFor are the rules of all policies that select the pod for a direction. isolated tells whether there is one.
func (f *firewall) rulesFor(pod endpoint, direction networkingv1.PolicyType, policies []*networkingv1.NetworkPolicy,
	pods []endpoint) (rules []string, isolated bool, err error) {
	for _, policy := range policies {
		if policy.Namespace != pod.namespace || !slices.Contains(policy.Spec.PolicyTypes, direction) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			return nil, false, err
		}
		if !selector.Matches(pod.labels) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeEgress {
			for _, rule := range policy.Spec.Egress {
				more, err := f.allow("daddr", policy.Namespace, rule.To, rule.Ports, nil, pods)
				if err != nil {
					return nil, false, err
				}
				rules = append(rules, more...)
			}
		} else {
			for _, rule := range policy.Spec.Ingress {
				more, err := f.allow("saddr", policy.Namespace, rule.From, rule.Ports, &pod, pods)
				if err != nil {
					return nil, false, err
				}
				rules = append(rules, more...)
			}
		}
	}
	return rules, isolated, nil
}

// allow are the nftables rules of one rule of a policy. A port's name is looked up at the pod that is reached: to for
// ingress, each of the peers for egress.
func (f *firewall) allow(side, namespace string, peers []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort, to *endpoint, pods []endpoint) ([]string, error) {
	var matches []string // of peers as a whole
	var reached []endpoint
	if len(peers) == 0 {
		matches, reached = []string{""}, pods
	}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			match := fmt.Sprintf("ip %s %s ", side, peer.IPBlock.CIDR)
			if len(peer.IPBlock.Except) > 0 {
				match += fmt.Sprintf("ip %s != { %s } ", side, strings.Join(peer.IPBlock.Except, ", "))
			}
			matches = append(matches, match)
			continue
		}
		found, err := f.selected(namespace, peer, pods)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			addresses := make([]string, len(found))
			for i, e := range found {
				addresses[i] = e.address
			}
			matches = append(matches, fmt.Sprintf("ip %s { %s } ", side, strings.Join(addresses, ", ")))
		}
		reached = append(reached, found...)
	}
	var rules []string
	if len(ports) == 0 {
		ports = []networkingv1.NetworkPolicyPort{{}}
	}
	for _, port := range ports {
		if port.Port != nil && port.Port.Type == intstr.String && to == nil {
			for _, e := range reached {
				if number, ok := e.ports[port.Port.StrVal]; ok {
					rules = append(rules, fmt.Sprintf("ip %s %s %sreturn", side, e.address, portMatch(port, number)))
				}
			}
			continue
		}
		var number int32
		if port.Port != nil {
			number = port.Port.IntVal
			if port.Port.Type == intstr.String {
				var ok bool
				if number, ok = to.ports[port.Port.StrVal]; !ok {
					continue
				}
			}
		}
		for _, match := range matches {
			rules = append(rules, match+portMatch(port, number)+"return")
		}
	}
	return rules, nil
}

// portMatch matches a protocol, or a port or range of ports of it.
func portMatch(port networkingv1.NetworkPolicyPort, number int32) string {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	switch {
	case port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d ", protocol, number, *port.EndPort)
	case number != 0:
		return fmt.Sprintf("%s dport %d ", protocol, number)
	case port.Protocol != nil:
		return fmt.Sprintf("meta l4proto %s ", protocol)
	}
	return ""
}

// selected are the pods that a peer's selectors name.
func (f *firewall) selected(namespace string, peer networkingv1.NetworkPolicyPeer, pods []endpoint) ([]endpoint,
	error) {
	podSelector, namespaceSelector := labels.Everything(), labels.Nothing()
	var err error
	if peer.PodSelector != nil {
		if podSelector, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return nil, err
		}
	}
	if peer.NamespaceSelector != nil {
		if namespaceSelector, err = metav1.LabelSelectorAsSelector(peer.NamespaceSelector); err != nil {
			return nil, err
		}
	}
	var found []endpoint
	for _, e := range pods {
		inside := peer.NamespaceSelector == nil && e.namespace == namespace
		if peer.NamespaceSelector != nil {
			ns, err := f.namespaces.Get(e.namespace)
			inside = err == nil && namespaceSelector.Matches(labels.Set(ns.Labels))
		}
		if inside && podSelector.Matches(e.labels) {
			found = append(found, e)
		}
	}
	return found, nil
}
