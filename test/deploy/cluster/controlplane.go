package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/test/deploy/node"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// users are who may ask the API server, each with a token: name and group.
var users = map[string][2]string{
	"admin":              {"admin", "system:masters"},
	"controller-manager": {"system:kube-controller-manager", "system:authenticated"},
	"scheduler":          {"system:kube-scheduler", "system:authenticated"},
	"node":               {"system:node:" + node.Name, "system:nodes"},
}

// controlPlane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback ports of this machine.
type controlPlane struct {
	binaries  Binaries
	dir       string
	ca        []byte // PEM
	tokens    map[string]string
	etcd      string // URL
	port      string // of the API server
	apiServer *exec.Cmd
	others    []*exec.Cmd
}

// start starts all four and returns when the API server is ready.
func (c *controlPlane) start(ctx context.Context) error {
	if err := c.writeKeys(); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.etcd, c.port = "http://127.0.0.1:"+ports[0], ports[1]
	peer := "http://127.0.0.1:" + ports[2]
	etcd, err := c.run(c.binaries.Etcd, "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	if err != nil {
		return err
	}
	c.others = append(c.others, etcd)
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	manager, err := c.run(c.binaries.ControllerManager, "--kubeconfig="+c.kubeconfig("controller-manager"),
		"--leader-elect=false",
		"--secure-port=0", "--use-service-account-credentials", "--service-account-private-key-file="+c.path("accounts.key"),
		"--root-ca-file="+c.path("ca.pem"), "--kube-api-qps=1000", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	c.others = append(c.others, manager)
	scheduler, err := c.run(c.binaries.Scheduler, "--kubeconfig="+c.kubeconfig("scheduler"), "--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	c.others = append(c.others, scheduler)
	return nil
}

// startAPIServer starts the API server, again if it was stopped, and returns when it is ready.
func (c *controlPlane) startAPIServer(ctx context.Context) error {
	var err error
	c.apiServer, err = c.run(c.binaries.APIServer, "--etcd-servers="+c.etcd, "--bind-address=127.0.0.1",
		"--secure-port="+c.port,
		"--tls-cert-file="+c.path("apiserver.pem"), "--tls-private-key-file="+c.path("apiserver.key"),
		"--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file="+c.path("accounts.key"),
		"--service-account-key-file="+c.path("accounts.key"), "--service-cluster-ip-range="+node.ServiceRange,
		// The node leads its own address to the API server, and the test writes the endpoint.
		"--advertise-address="+node.Address, "--endpoint-reconciler-type=none", "--allow-privileged",
		"--cert-dir="+c.path("certificates"))
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.config("admin"))
	if err != nil {
		return err
	}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config("admin").Host+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(c.path("kube-apiserver.log"))
			return fmt.Errorf("kube-apiserver is not ready: %w: %v\n%s", ctx.Err(), err, tail(log))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends a process. It may be nil.
func stop(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func (c *controlPlane) stop() {
	stop(c.apiServer)
	for _, cmd := range c.others {
		stop(cmd)
	}
}

func (c *controlPlane) path(name string) string { return filepath.Join(c.dir, name) }

// run starts a program whose output goes to a file. It ends with this process.
func (c *controlPlane) run(path string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(c.path(filepath.Base(path)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOGC=400") // the pods share the CPU with it
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Root gives it the processor before the pods, as if it had a machine of its own.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, -10)
	return cmd, nil
}

// config is how a user reaches the API server, without a limit of its own on the rate. Protocol Buffers, which kubelets
// speak, cost both ends a fraction of JSON.
func (c *controlPlane) config(user string) *rest.Config {
	return &rest.Config{
		Host: "https://127.0.0.1:" + c.port, BearerToken: c.tokens[user], QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca},
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
	}
}

// kubeconfig writes a user's configuration, and returns its path.
func (c *controlPlane) kubeconfig(user string) string {
	path := c.path(user + ".kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"test": {Server: "https://127.0.0.1:" + c.port, CertificateAuthorityData: c.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: c.tokens[user]}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: user}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		panic(err) // the folder is there: other files were written to it
	}
	return path
}

// writeKeys makes the API server's certificate, the service accounts' key and the users' tokens.
func (c *controlPlane) writeKeys() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	if c.ca, err = c.certify("ca", ca, ca, caKey, caKey); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: ca.NotBefore,
		NotAfter: ca.NotAfter,
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(node.APIService), net.ParseIP(node.Address)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if _, err := c.certify("apiserver", server, ca, key, caKey); err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := c.writeKey("accounts", accounts); err != nil {
		return err
	}
	c.tokens = map[string]string{}
	var lines strings.Builder
	for user, as := range users {
		raw := make([]byte, 16)
		_, _ = rand.Read(raw) // it never fails
		c.tokens[user] = hex.EncodeToString(raw)
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", c.tokens[user], as[0], user, as[1])
	}
	return os.WriteFile(c.path("tokens.csv"), []byte(lines.String()), 0o600)
}

// certify writes a certificate and its key, and returns the certificate in PEM.
func (c *controlPlane) certify(name string, certificate, issuer *x509.Certificate, key,
	issuerKey *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, certificate, issuer, key.Public(), issuerKey)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(c.path(name+".pem"), text, 0o600); err != nil {
		return nil, err
	}
	return text, c.writeKey(name, key)
}

func (c *controlPlane) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(c.path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// freePorts are ports of the loopback address that nobody listened on a moment ago.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// tail is the end of a log.
func tail(log []byte) []byte {
	const most = 4 << 10
	if len(log) > most {
		return log[len(log)-most:]
	}
	return log
}
