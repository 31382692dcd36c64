package node

import (
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// names is the cluster's DNS: Services, the pods behind headless ones, and the names of listeners outside the cluster.
// There is nobody to ask for other names, so they do not exist.
type names struct {
	node    *Node
	servers []*dns.Server

	mu      sync.Mutex // guards outside
	outside map[string]string
}

func newNames(n *Node) (*names, error) {
	s := &names{node: n, outside: map[string]string{}}
	address := net.JoinHostPort(DNSService, "53")
	listener, err := n.network.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	var packets net.PacketConn
	err = inNetwork(n.network.namespace, func() error {
		packets, err = net.ListenPacket("udp", address)
		return err
	})
	if err != nil {
		listener.Close()
		return nil, err
	}
	s.servers = []*dns.Server{{Listener: listener, Handler: s}, {PacketConn: packets, Handler: s}}
	for _, server := range s.servers {
		ready := make(chan struct{})
		server.NotifyStartedFunc = func() { close(ready) }
		n.group.Go(func() { _ = server.ActivateAndServe() })
		<-ready
	}
	return s, nil
}

func (s *names) close() {
	for _, server := range s.servers {
		_ = server.Shutdown()
	}
}

func (s *names) add(address string, hosts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		s.outside[strings.ToLower(host)+"."] = address
	}
}

// ServeDNS answers one question.
func (s *names) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetReply(question)
	answer.Authoritative, answer.RecursionAvailable = true, true
	if len(question.Question) == 1 {
		asked := question.Question[0]
		addresses, known := s.lookUp(asked.Name)
		if !known {
			answer.Rcode = dns.RcodeNameError
		}
		for _, address := range addresses {
			if asked.Qtype == dns.TypeA {
				header := dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
				answer.Answer = append(answer.Answer, &dns.A{Hdr: header, A: net.ParseIP(address)})
			}
		}
	}
	_ = w.WriteMsg(answer)
}

// lookUp finds the addresses of a name that ends with a dot. The cluster's domain may be missing.
func (s *names) lookUp(name string) (addresses []string, known bool) {
	name = strings.ToLower(name)
	s.mu.Lock()
	address, ok := s.outside[name]
	s.mu.Unlock()
	if ok {
		return []string{address}, true
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, "."), ".cluster.local")
	parts := strings.Split(name, ".")
	if len(parts) < 3 || parts[len(parts)-1] != "svc" {
		return nil, false
	}
	namespace, service, pod := parts[len(parts)-2], parts[len(parts)-3], strings.Join(parts[:len(parts)-3], ".")
	found, err := s.node.services.Services(namespace).Get(service)
	switch {
	case err != nil:
		return nil, false
	case found.Spec.ClusterIP != corev1.ClusterIPNone && pod == "":
		return []string{found.Spec.ClusterIP}, true
	}
	return s.headless(namespace, service, pod)
}

// headless finds the pods of a Service, or the one with a host name.
func (s *names) headless(namespace, service, pod string) (addresses []string, known bool) {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})
	found, err := s.node.firewall.slices.EndpointSlices(namespace).List(selector)
	if err != nil {
		return nil, false
	}
	for _, slice := range found {
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if ready && (pod == "" || e.Hostname != nil && *e.Hostname == pod) {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	return addresses, pod == "" || len(addresses) > 0
}
